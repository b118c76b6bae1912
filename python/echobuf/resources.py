"""Objects that own threads, memory and sockets.

`Closing` and `Uncopied` are their bases. A forked child closes the sockets and locks
that were tracked: in a child they would stay open when this process is gone, and its
peers would wait for an answer.
"""

from __future__ import annotations

import io
import os
import socket
import weakref
from abc import ABC, abstractmethod
from typing import NoReturn, TypeVar

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


class Uncopied:
    """Base of what has threads and memory: `copy` and `pickle` raise `TypeError`."""

    _called = "an EchoLoader"
    _remedy = (
        "Make another one around the same data, in the process that uses it, and load "
        "this one's `state_dict()` into it."
    )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._called} cannot be copied or pickled: it has memory and threads of "
            f"its own. {self._remedy}"
        )


_open: weakref.WeakSet[socket.socket | io.FileIO] = weakref.WeakSet()


def track(opened: socket.socket | io.FileIO) -> None:
    """Close it in forked children."""
    _open.add(opened)


def _close_all() -> None:
    for each in list(_open):
        each.close()


os.register_at_fork(after_in_child=_close_all)
