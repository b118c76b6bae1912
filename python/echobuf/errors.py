"""Errors of echobuf, and the text of any exception, also one that cannot be printed."""

from __future__ import annotations

from collections.abc import Callable


class EchobufError(Exception):
    """The base of all errors of echobuf."""


class SpecError(EchobufError, ValueError):
    """A leaf has another structure, shape or dtype than the spec."""


class OptionError(EchobufError, ValueError):
    """An argument is out of range."""


class ClosedError(EchobufError, RuntimeError):
    """A put after `close()`, or any call after leaving the context.

    Attributes:
        accepted: for `put_batch`, how many examples were put before the buffer closed.
    """

    accepted: int = 0


class UpstreamError(EchobufError, RuntimeError):
    """Upstream raised; the original is the `__cause__`."""


class StateError(EchobufError, ValueError):
    """A state that does not fit these arguments, or is damaged."""


class ItemError(UpstreamError, SpecError):
    """Upstream yielded something that does not fit its first item."""


class UpstreamStateError(UpstreamError, StateError):
    """Upstream does not take the state that it is said to have been in."""


class StepError(EchobufError, RuntimeError):
    """The training step raised, or does nothing that can be timed."""


class CapacityError(EchobufError, MemoryError):
    """The buffer would not fit `max_bytes` or the device."""


class DeviceError(EchobufError, RuntimeError):
    """No such device, no driver, no CuPy, or a device that was lost.

    Attributes:
        accepted: for `put_batch`, how many examples were put before that.
    """

    accepted: int = 0


class MissingPackageError(EchobufError, ImportError):
    """A package is not installed that only what was asked for needs."""


class ForkError(EchobufError, RuntimeError):
    """A buffer was used in a forked child."""


def describe(error: BaseException) -> str:
    """Return `repr(error)`, or as much of it as can be had.

    Lone surrogates are escaped, so the text can be encoded as UTF-8. An exception whose
    `repr` raises becomes its class name and message, or its class name alone. Only
    `KeyboardInterrupt` is passed on.
    """
    text = _call(repr, error)
    if text is not None:
        return text
    name, said = _name(error), _call(str, error)
    return f"{name}: {said}" if said else name


def message(error: BaseException) -> str:
    """Return `str(error)`, and where that is empty or raises, `describe(error)`.

    Lone surrogates are escaped, as in `describe`.
    """
    return _call(str, error) or describe(error)


def titled(error: BaseException) -> str:
    """Return the class name and `message(error)`, as the last line of a traceback."""
    name, said = _name(error), message(error)
    return said if said.startswith(name) else f"{name}: {said}"


def escape(text: str) -> str:
    """Return `text` with its lone surrogates escaped, as a plain string."""
    # Of `str`, whatever a subclass makes of these.
    return str.encode(text, "utf-8", "backslashreplace").decode()


def _call(convert: Callable[[object], str], error: BaseException) -> str | None:
    try:
        return escape(convert(error))
    except KeyboardInterrupt:
        raise
    except BaseException:  # a `repr` of users may raise anything
        return None


def _name(error: BaseException) -> str:
    return _call(lambda each: type(each).__name__, error) or "an exception"
