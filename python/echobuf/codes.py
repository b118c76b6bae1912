"""Exceptions for the codes that the core returns."""

from __future__ import annotations

from typing import NoReturn

from echobuf import _core
from echobuf.describe_error import describe, message
from echobuf.errors import (
    ClosedError,
    EchobufError,
    ForkError,
    OptionError,
    SpecError,
    StateError,
    UpstreamError,
)

_LEFT = "the context of this buffer was left; make a new one."


def _show_count(accepted: int) -> str:
    """Return the number of examples that were put, in words."""
    return "1 example was" if accepted == 1 else f"{accepted} examples were"


def check(code: int) -> None:
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


def refuse_put(code: int, accepted: int, *, failed: bool) -> NoReturn:
    """Raise for a put that the core has ended.

    Args:
        code: why.
        accepted: how many examples it had put by then.
        failed: whether `fail` was called.
    """
    error: EchobufError | TimeoutError
    if code == _core.FORKED:
        raise _fork_error()
    if code == _core.MISMATCH:
        raise SpecError("an array was changed by another thread during the put.")
    if code == _core.TIMEOUT:
        error = TimeoutError(
            f"the ring stayed full until `timeout`; {_show_count(accepted)} put. "
            "Draw batches meanwhile, or wait longer."
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
    raise error


def end_next(code: int, upstream_error: BaseException | None) -> NoReturn:
    """Raise for a draw that the core has ended without a batch.

    Args:
        code: why.
        upstream_error: what `fail` was called with.
    """
    if code == _core.FINISHED:
        raise StopIteration
    if code == _core.TIMEOUT:
        raise TimeoutError("no batch was ready before `timeout`.")
    if code == _core.FAILED:
        if upstream_error is None:
            raise ClosedError(
                "the epoch was ended while a batch was waited for: another thread has "
                "left the loop, or the interpreter ends."
            )
        raise upstream_failed(upstream_error)
    if code == _core.SHORT:
        raise StateError(
            "upstream ended otherwise than `state` says: put the same fresh "
            "examples again, from `fresh_offset` on."
        )
    if code == _core.TWICE:
        raise OptionError(
            "this capture has a draw of this buffer already, and a replay would serve "
            "the same batch twice. Draw one batch of all that the graph needs, and "
            "split it there."
        )
    if code == _core.CAPTURING:
        raise OptionError(
            "`stream` is being captured: call `before_replay` before each replay, not "
            "during the capture."
        )
    check(code)
    raise AssertionError(code)


def upstream_failed(cause: BaseException) -> UpstreamError:
    """Return the error for what upstream raised, in one line.

    A text of several lines, such as the traceback that a DataLoader's worker sends, is
    cut to its first and its last; all of it is in the cause.
    """
    error = UpstreamError(f"upstream failed: {_in_one_line(cause)}")
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
