"""What a worker process is told when it starts, and what it says."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echobuf.loader.adapter import Adapter

READY = "ready"
FAILED = "failed"


@dataclass(frozen=True)
class Task:
    """One worker's; `multiprocessing` pickles it.

    Attributes:
        number: of the worker, from 0.
        count: of workers.
        dataset: that it reads.
        adapter: that reads its items.
        example: the first example, pickled: the others are like it.
        capacity: slots of the ring.
        init: called with `number` first; or None.
    """

    number: int
    count: int
    dataset: Any
    adapter: Adapter
    example: bytes
    capacity: int
    init: Callable[[int], Any] | None


class WorkerTraceback(Exception):  # noqa: N818 - it is no error, but where one came from
    """Where in a worker process an error was raised."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


def pack_error(error: BaseException) -> tuple[bytes, str]:
    """An error and where it was raised, to be sent."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)  # some can be pickled, and not made again
    except Exception:
        packed = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return packed, text


def unpack_error(packed: tuple[bytes, str]) -> BaseException:
    """The error, whose cause says where it was raised."""
    error: BaseException = pickle.loads(packed[0])
    error.__cause__ = WorkerTraceback(packed[1])
    return error
