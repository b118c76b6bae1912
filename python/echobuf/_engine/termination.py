"""Ends of calls without a result: the core's codes as exceptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from echobuf import _core, hints
from echobuf._engine.backend import Backend
from echobuf._engine.waits import show_fresh, show_full
from echobuf.errors import (
    ClosedError,
    DeviceError,
    EchobufError,
    ForkError,
    OptionError,
    SpecError,
    StateError,
    UpstreamError,
    describe,
    message,
)
from echobuf.options import Options
from echobuf.stats import make_stats

_LEFT = "the context of this buffer was left; make a new one."
# Codes of calls that a lost device ends.
_LOST = (_core.BROKEN, _core.CLOSED, _core.LEFT)

# Ends of draws that say nothing more.
_DRAW_ERRORS: dict[int, tuple[type[EchobufError], str]] = {
    _core.FAILED: (
        ClosedError,
        "the epoch was ended while a batch was waited for: another thread has left the "
        "loop, or the interpreter ends.",
    ),
    _core.SHORT: (
        StateError,
        "upstream ended otherwise than `state` says: put the same fresh examples "
        "again, from `fresh_offset` on.",
    ),
    _core.TWICE: (
        OptionError,
        "this capture has a draw of this buffer already, and a replay would serve the "
        "same batch twice. Draw one batch of all that the graph needs, and split it "
        "there.",
    ),
    _core.CAPTURING: (
        OptionError,
        "`stream` is being captured: call `before_replay` before each replay, not "
        "during the capture.",
    ),
}


def _show_count(accepted: int) -> str:
    """Return the number of examples that were put, in words."""
    return "1 example was" if accepted == 1 else f"{accepted} examples were"


def raise_for_code(code: int) -> None:
    """Raise for a code that any call can end with; not for 0."""
    if code == 0:
        return
    if code == _core.FORKED:
        raise _fork_error()
    if code == _core.REENTRANT:
        raise RuntimeError(
            "called from a signal handler that interrupted a draw of this buffer "
            "in this thread, and would wait for it for ever. Set a flag in the "
            "handler, and make the call after the draw."
        )
    if code == _core.MISMATCH:
        raise StateError(
            "the buffer has been used or closed; load a state before the first `put`, "
            "or after `reset`."
        )
    raise ClosedError(_LEFT)


def put_error(
    code: int, accepted: int, *, failed: bool, full: str = ""
) -> EchobufError | TimeoutError:
    """Return the error for a put that the core has ended.

    It is made here and raised by the caller: a frame that held the error that it raises
    would keep itself alive, and with it all that its callers hold.

    Args:
        code: why.
        accepted: how many examples it had put by then.
        failed: whether `fail` was called.
        full: what is in the ring, where it stayed full.
    """
    error: EchobufError | TimeoutError
    if code == _core.FORKED:
        return _fork_error()
    if code == _core.MISMATCH:
        return SpecError("an array was changed by another thread during the put.")
    if code == _core.TIMEOUT:
        error = TimeoutError(
            f"the ring stayed full until `timeout`; {_show_count(accepted)} put. "
            f"{full}Draw batches meanwhile, or wait longer."
        )
    elif code == _core.LEFT:
        error = ClosedError(f"{_LEFT} {_show_count(accepted)} put.")
    elif failed:
        error = ClosedError("`fail` was called; `reset` begins another epoch.")
    else:
        error = ClosedError(
            f"the buffer is closed; {_show_count(accepted)} put. `reset` begins "
            "another epoch."
        )
    error.accepted = accepted  # type: ignore[union-attr]
    return error


def upstream_failed(cause: BaseException) -> UpstreamError:
    """Return the error for what upstream raised, in one line.

    A text of several lines, such as the traceback that a DataLoader's worker sends, is
    cut to its first and its last; all of it is in the cause.
    """
    line = hints.of_failure(message(cause))
    error = UpstreamError(
        f"upstream failed: {_in_one_line(cause)}{'. ' if line else ''}{line}"
    )
    error.__cause__ = cause
    return error


def _in_one_line(cause: BaseException) -> str:
    lines = [line.strip() for line in message(cause).splitlines() if line.strip()]
    if len(lines) < 2:
        return describe(cause)
    return f"{type(cause).__name__}: {lines[0]} ... {lines[-1]}"


def _fork_error() -> ForkError:
    return ForkError(
        "this buffer belongs to the parent process: its threads do not exist here. "
        "Make a buffer in this process, or use the start method 'spawn'."
    )


class Termination:
    """Exceptions for one buffer's codes, with upstream's error and the device's.

    Args:
        backend: where the buffer is.
        options: the buffer's.
    """

    def __init__(self, backend: Backend, options: Options) -> None:
        self._backend = backend
        self._options = options
        self._upstream_error: BaseException | None = None
        self._past_error: BaseException | None = None  # of the epoch before
        # Returns the error of a server whose slots the buffer borrows no longer.
        self.cut_off: Callable[[], BaseException] | None = None

    def upstream_failed(self, error: BaseException) -> None:
        """Note upstream's error, before the core fails the epoch."""
        self._upstream_error = error

    def epoch_begins(self) -> None:
        """Return the core has begun another epoch, of which nothing has failed."""
        # In this order: a call that has just failed finds the error in either, also
        # after a second reset.
        if self._upstream_error is not None:
            self._past_error = self._upstream_error
        self._upstream_error = None

    def check(self, code: int) -> None:
        """Raise for a code that any call can end with; not for 0."""
        if code != 0:
            self._check_device(code)
            raise_for_code(code)

    def refuse_put(self, code: int, accepted: int) -> NoReturn:
        """Raise for a put that has ended after `accepted` examples."""
        try:
            self._check_device(code)
        except DeviceError as error:
            error.accepted = accepted
            raise
        full = ""
        if code == _core.TIMEOUT:
            full = f"In all {show_full(self._options, *self.counts())}. "
        failed = self._upstream_error is not None
        raise put_error(code, accepted, failed=failed, full=full)

    def end_next(self, code: int) -> NoReturn:
        """Raise for a draw that has ended without a batch."""
        if code == _core.NO_MEMORY:
            raise self._backend.out_of_memory()
        error = self._upstream_error
        if error is None:  # another thread has called `reset` meanwhile
            error = self._past_error
        if error is None and self.cut_off is not None:
            error = self.cut_off()
        self._check_device(code)
        if code == _core.FINISHED:
            raise StopIteration
        if code == _core.TIMEOUT:
            fresh = show_fresh(self._options, self.counts()[0])
            raise TimeoutError(f"no batch was ready before `timeout`: {fresh}.")
        if code == _core.FAILED and error is not None:
            raise upstream_failed(error)
        if code in _DRAW_ERRORS:
            kind, text = _DRAW_ERRORS[code]
            raise kind(text)
        raise_for_code(code)
        raise AssertionError(code)

    def counts(self) -> tuple[int, int]:
        """Return the fresh examples of this epoch, and the draws served."""
        raw = self._backend.core.stats()
        if isinstance(raw, int):  # the next call raises for it
            return 0, 0
        stats = make_stats(raw)
        return stats.fresh, stats.served

    def _check_device(self, code: int) -> None:
        """Raise if the call was refused because the device is lost."""
        if code in _LOST and (lost := self._backend.why_lost()) is not None:
            raise lost
