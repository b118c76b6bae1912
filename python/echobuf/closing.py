"""`with` for what has a `close`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

_Self = TypeVar("_Self", bound="Closing")


class Closing(ABC):
    """A context manager that is closed at the end of its `with`."""

    @abstractmethod
    def close(self) -> None:
        """End it and release what it holds."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
