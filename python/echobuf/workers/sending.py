"""What a process is sent when it starts: descriptors, and large things by them.

`multiprocessing` writes what a process is started with into a pipe, and waits for ever
if the process dies before it has read all of that. What passes here fits the pipe.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any


class Descriptor:
    """A descriptor of this process, which becomes the child's when it is sent."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> Any:
        return _as_it_is, (DupFd(self._number),)


class Parcel:
    """Anything that can be pickled, in memory without a name.

    Close it when the process was started.
    """

    def __init__(self, value: Any) -> None:
        self._value = value
        self._files: list[Any] = []

    def __reduce__(self) -> Any:
        # Here, and not before: locks can be pickled only while a process is started.
        file = open(os.memfd_create("echobuf"), "wb")  # noqa: SIM115 - see close()
        self._files.append(file)
        ForkingPickler(file).dump(self._value)
        file.flush()
        return Received, (DupFd(file.fileno()),)

    def close(self) -> None:
        """Gives this process's part of the memory back."""
        for file in self._files:
            # Where it could not be written, that was raised already.
            with contextlib.suppress(OSError):
                file.close()


class Received:
    """A parcel where it has come to."""

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor

    def open(self) -> Any:
        """What is in it; raises what unpickling it raises."""
        with open(self._descriptor.detach(), "rb") as file:
            file.seek(0)
            return pickle.load(file)


def _as_it_is(descriptor: Any) -> Any:
    return descriptor
