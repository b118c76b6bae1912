"""What Ctrl-C does to a command."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

__all__ = [
    "EXIT_CODE",
    "MESSAGE",
    "ending_on_interrupt",
    "terminated_as_interrupted",
]

EXIT_CODE = 130  # what a shell reports for a program that Ctrl-C ended
MESSAGE = "echobuf: interrupted"


@contextmanager
def ending_on_interrupt() -> Iterator[None]:
    """Makes Ctrl-C end the process at once, for a time when nothing is to be undone.

    It is meant for long imports: a `KeyboardInterrupt` in the middle of one can come
    out of it as another error, and, where the import runs `exec`, CPython ends the
    process by the signal later on although the exception was handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> NoReturn:
    print(MESSAGE, file=sys.stderr, flush=True)
    os._exit(EXIT_CODE)
