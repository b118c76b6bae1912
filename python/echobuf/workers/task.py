"""What a worker process is told when it starts, and what it says."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echobuf.describe_error import describe, escape
from echobuf.errors import ItemError
from echobuf.field import Field
from echobuf.loader.adapter import Adapter

READY = "ready"
FAILED = "failed"


@dataclass(frozen=True)
class Task:
    """One worker's; it is pickled.

    Attributes:
        number: of the worker, from 0.
        count: of workers.
        dataset: that it reads.
        adapter: that reads its items.
        example: the first example: the others are like it.
        fields: its leaves. NumPy gives an array that was pickled the byte order of the
            machine.
        capacity: slots that workers write.
        seed: of the loader.
        init: called with `number` first; or None.
        start: how many processes the loader had started before this one.
    """

    number: int
    count: int
    dataset: Any
    adapter: Adapter
    example: Any
    fields: tuple[Field, ...]
    capacity: int
    seed: int
    init: Callable[[int], Any] | None
    start: int = 0


class WorkerTraceback(Exception):  # noqa: N818 - it is no error, but where one came from
    """Where in a worker process an error was raised."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


def pack_error(error: BaseException) -> tuple[bytes, str, str]:
    """An error, what it says, and where it was raised, to be sent."""
    said = _said(error)
    # Where the workers' own code has found that an item does not fit says nothing.
    is_said = isinstance(error, ItemError) and error.__cause__ is None
    try:
        text = "" if is_said else escape("".join(traceback.format_exception(error)))
    except BaseException:  # what users' classes do in `str` and elsewhere
        text = f"{_frames(error)}{said}\n"
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)  # some can be pickled, and not made again
    except BaseException:
        packed = b""
    return packed, said, text


def _said(error: BaseException) -> str:
    try:
        return escape("".join(traceback.format_exception_only(error)).strip())
    except BaseException:
        return describe(error)


def _frames(error: BaseException) -> str:
    return escape("".join(traceback.format_tb(error.__traceback__)))


def unpack_error(packed: tuple[bytes, str, str]) -> BaseException:
    """The error, whose cause says where it was raised."""
    data, said, text = packed
    error: object = None
    if data:
        try:
            error = pickle.loads(data)
        except BaseException:
            error = None  # made there, and not here
    if not isinstance(error, BaseException):
        error = RuntimeError(said)
    cause = WorkerTraceback(text) if text else None
    try:
        error.__cause__ = cause
    except BaseException:  # a class that lets nothing be set
        error = RuntimeError(said)
        error.__cause__ = cause
    return error
