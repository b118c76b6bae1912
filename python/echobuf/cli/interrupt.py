"""Handling of Ctrl-C and SIGTERM in commands."""

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
    "exit_on_interrupt",
    "sigterm_as_interrupt",
]

EXIT_CODE = 130  # as shells report a program that Ctrl-C ended
MESSAGE = "echobuf: interrupted"


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Make Ctrl-C end the process at once, for as long as the context lasts.

    For long imports: a `KeyboardInterrupt` during an import can be raised as another
    error, and where the import runs `exec`, CPython later ends the process by the
    signal although the exception was handled.
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
def sigterm_as_interrupt() -> Iterator[None]:
    """Make SIGTERM raise `KeyboardInterrupt`, as Ctrl-C does."""
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
