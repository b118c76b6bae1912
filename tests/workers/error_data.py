"""Errors that cannot be printed, or cannot be sent to another process."""

from typing import Any


class SilentError(ValueError):
    """An error without `repr` and `str`."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    __str__ = __repr__


class ExitingError(ValueError):
    """An error whose `str` ends the process."""

    def __str__(self) -> str:
        raise SystemExit(9)

    def __reduce__(self) -> Any:
        raise SystemExit(9)


class OnlyThereError(ValueError):
    """An error that can be unpickled in a worker, and not in the trainer."""

    def __reduce__(self) -> Any:
        return _make, (str(self),)


def _make(text: str) -> Any:
    import multiprocessing

    if multiprocessing.parent_process() is None:
        raise SystemExit(9)
    return OnlyThereError(text)


class LockedError(ValueError):
    """An error that cannot be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text, lambda: None)


class StubbornError(ValueError):
    """An error whose cause cannot be set."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError("nothing can be set")


class Raise:
    """A dataset that raises an error of a class."""

    def __init__(self, kind: type[Exception], text: str = "bad \udcff byte") -> None:
        self.kind = kind
        self.text = text

    def __call__(self) -> Any:
        raise self.kind(self.text)
