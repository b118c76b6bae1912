"""Progress of waits: one line on the logger `echobuf` about a wait that lasts.

Most waits are slices of a loop, which calls `Wait.tick` after each. `watching` reports
calls into code that is not echobuf's, from a thread of its own.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from echobuf.errors import OptionError, show, warn_caller
from echobuf.resources import DaemonThread, Signal

_AFTER_S, _EVERY_S = 10.0, 60.0
_LONGEST_SLICE_S = 1.0
_SLICES = 10  # of the time before a line, so that a rate can be told
_VARIABLE = "ECHOBUF_PROGRESS"


class Settings:
    """The settings of this process.

    Attributes:
        after_s: seconds that a wait lasts before its line; 0: no lines.
        every_s: seconds between two lines of one kind.
        slice_s: seconds of a slice of a wait; None: waits need no slices.
        last: when each kind of line was written last.
        is_explained: True once a line has named `set_progress`.
    """

    def __init__(self) -> None:
        self.set(_of_environment(), _EVERY_S)
        self.is_explained = False

    def set(self, after_s: float, every_s: float) -> None:
        """Set both times."""
        self.after_s, self.every_s = after_s, every_s
        self.slice_s = min(_LONGEST_SLICE_S, after_s / _SLICES) if after_s else None
        self.last: dict[str, float] = {}


def set_progress(
    after_s: float | None = _AFTER_S, *, every_s: float = _EVERY_S
) -> None:
    """Set after how many seconds this process reports that a loader waits.

    A report is one line on the logger "echobuf", with level WARNING, so that Python
    prints it to stderr unless logging is configured otherwise. It names what is waited
    for: the first item of upstream, the examples that fill the window, a slow upstream
    or worker, a server, kernels that are compiled. So does an `EchoBuffer`, for a
    `next_batch` without `timeout`, and for a `put` into a full ring from which no other
    thread draws.

    The environment variable ECHOBUF_PROGRESS is the default of `after_s`.

    Args:
        after_s: seconds that a wait lasts before its line; 0 or None: no lines.
        every_s: seconds from one line to the next of the same kind.

    Raises:
        OptionError: one is no such number; True and False are none.

    Examples:
        >>> echobuf.set_progress(None)  # no lines
        >>> echobuf.set_progress(30, every_s=300)
        >>> echobuf.set_progress()  # as before
        >>> echobuf.set_progress(-1)
        Traceback (most recent call last):
            ...
        echobuf.errors.OptionError: `after_s` is -1; it must be a number of seconds, 0
        or more. None or 0 turns the lines off.
    """
    checked = _check_seconds("after_s", 0.0 if after_s is None else after_s)
    current.set(checked, _check_seconds("every_s", every_s))


def slice_s() -> float | None:
    """Return the seconds after which a wait looks at its progress; None: never."""
    return current.slice_s


class Wait:
    """A wait of one kind, which is reported once it lasts."""

    def __init__(self, kind: str, begun_s: float = 0.0) -> None:
        self._kind = kind
        self._began = time.monotonic() - begun_s

    def tick(self, describe: Callable[[], str]) -> None:
        """Report the wait, if it is time to.

        Args:
            describe: returns what is waited for, after "waiting 12 s for ".
        """
        now, settings = time.monotonic(), current
        if not settings.after_s or now - self._began < settings.after_s:
            return
        last = settings.last.get(self._kind)
        if last is not None and now - last < settings.every_s:
            return
        settings.last[self._kind] = now
        _write(f"waiting {show_seconds(now - self._began)} for {describe()}")


@contextlib.contextmanager
def watching(
    kind: str, describe: Callable[[], str], begun_s: float = 0.0
) -> Iterator[None]:
    """Return a context whose block is a wait that a thread reports, as `Wait.tick`."""
    slice_s = current.slice_s
    if slice_s is None:
        yield
        return
    wait, over = Wait(kind, begun_s), Signal()

    def watch() -> None:
        while not over.wait(slice_s):
            wait.tick(describe)

    try:
        with contextlib.suppress(RuntimeError):  # no thread is left: no line
            DaemonThread(watch, name="echobuf-progress").start()
        yield
    finally:  # also where Ctrl-C came before the block: the generator is dropped then
        over.set()


def show_seconds(seconds: float) -> str:
    """Return a duration in words: "12 s", "3 min", "2.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.3g} h"


def _write(text: str) -> None:
    rank = _rank()
    line = f"echobuf{'' if rank is None else f' (rank {rank})'}: {text}"
    if not current.is_explained:
        current.is_explained = True
        line += " (echobuf.set_progress(None) turns these lines off)"
    import logging  # here: most processes write no line

    with _clear_of_bars():
        logging.getLogger("echobuf").warning("%s", line)


def _rank() -> int | None:
    """Return the rank of this process; None where it is the only one."""
    dist: Any = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return int(dist.get_rank()) if dist.get_world_size() > 1 else None


@contextlib.contextmanager
def _clear_of_bars() -> Iterator[None]:
    """Write whole lines where tqdm's bars stand: they are drawn again below."""
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
    write_mode = getattr(tqdm, "external_write_mode", None)
    if write_mode is None:
        yield
        return
    with write_mode(file=sys.stderr):
        yield


def _of_environment() -> float:
    text = os.environ.get(_VARIABLE, "").strip()
    if not text:
        return _AFTER_S
    try:
        return _check_seconds(_VARIABLE, float(text))
    except (ValueError, OptionError):
        warn_caller(
            f"{_VARIABLE} is {text!r}; it must be a number of seconds, or 0 for no "
            f"progress lines. {_AFTER_S:g} s are used."
        )
        return _AFTER_S


def _check_seconds(name: str, value: Any) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:
        remedy = " None or 0 turns the lines off." if name == "after_s" else ""
        raise OptionError(
            f"`{name}` is {show(value)}; it must be a number of seconds, 0 or more."
            f"{remedy}"
        )
    return float(value)


current = Settings()
