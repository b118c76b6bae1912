"""The command line of echobuf; `echobuf.cli.main` is its entry point."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import NoReturn

EXIT_CODE = 130  # as shells report a program that Ctrl-C ended
MESSAGE = "echobuf: interrupted"
_Handler = Callable[[int, "FrameType | None"], object]


class CommandError(Exception):
    """A failure of a command, with exit code 1; the message is one line."""


class UsageError(CommandError):
    """A wrong use of a command, with exit code 2; the message is one line."""


def require(extra: str, packages: dict[str, str]) -> None:
    """Raise `CommandError` if packages of an extra are missing; imports none of them.

    Args:
        extra: the extra of echobuf that installs them, such as `"demo"`.
        packages: name of the module to the name under which it is installed.
    """
    missing = [name for module, name in packages.items() if not is_installed(module)]
    if missing:
        hint = f"pip install 'data-echoing[{extra}]'"
        raise CommandError(f"{', '.join(missing)} not installed: {hint}")


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    try:
        return find_spec(module) is not None
    except ValueError:  # sys.modules holds None for it: importing it is forbidden
        return False


@contextmanager
def _handling(number: signal.Signals, handler: _Handler) -> Iterator[None]:
    """Handle a signal for as long as the context lasts, on the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def exit_on_interrupt() -> AbstractContextManager[None]:
    """Return a context in which Ctrl-C ends the process at once.

    For long imports: a `KeyboardInterrupt` during an import can be raised as another
    error, and where the import runs `exec`, CPython later ends the process by the
    signal although the exception was handled.
    """
    return _handling(signal.SIGINT, _end)


def sigterm_as_interrupt() -> AbstractContextManager[None]:
    """Return a context in which SIGTERM raises `KeyboardInterrupt`, as Ctrl-C does."""
    return _handling(signal.SIGTERM, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    print(MESSAGE, file=sys.stderr, flush=True)
    os._exit(EXIT_CODE)
