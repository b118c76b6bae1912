"""The options of worker processes, checked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from echobuf.errors import OptionError

_METHODS = ("spawn", "forkserver")

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    Context: TypeAlias = Literal["spawn", "forkserver"] | BaseContext | None
else:
    Context = Any  # `multiprocessing` is imported when there are workers


@dataclass(frozen=True)
class WorkerSettings:
    """Checked options of a loader's worker processes."""

    count: int  # number of processes, at least 1
    context: BaseContext  # of `multiprocessing`, starts the processes
    # Called in each with its number, before the first example; or None
    init: Callable[[int], Any] | None
    max_restarts: int  # dead processes that are replaced in an epoch
    # Examples enter the window in the sampler's order; else as they arrive
    in_order: bool = True
    seed: int = 0  # of their random numbers


def check_workers(
    *,
    num_workers: int,
    multiprocessing_context: Any,
    worker_init_fn: Any,
    max_restarts: int,
    unit: str,
    batched: bool | None,
    in_order: bool,
    seed: int,
    **_: Any,
) -> WorkerSettings | None:
    """Check the arguments of a loader with each other; return None for no workers."""
    count = num_workers
    if not in_order and count == 0:
        raise OptionError(
            "`in_order` is False and `num_workers` is 0, but one thread makes examples "
            "one after the other; give `num_workers`, at least 1, or leave `in_order` "
            "out."
        )
    if worker_init_fn is not None and not callable(worker_init_fn):
        raise OptionError(
            f"`worker_init_fn` is {worker_init_fn!r}; it must be a function of the "
            "worker's number, or None."
        )
    if count == 0 and multiprocessing_context is None:
        return None
    context = _check_context(multiprocessing_context)
    if count == 0:
        return None
    import multiprocessing

    if not sys.platform.startswith("linux"):
        raise OptionError(
            f"`num_workers` is {count}; worker processes need Linux. Leave it out."
        )
    if multiprocessing.current_process().daemon:
        raise OptionError(
            f"`num_workers` is {count}, but this process is a daemon of "
            "`multiprocessing`, which may not start others. Leave it out here."
        )
    if unit == "batch":
        raise OptionError(
            f"`num_workers` is {count}; workers make examples, and unit='batch' echoes "
            "whole batches. Leave one of them out."
        )
    if batched:
        raise OptionError(
            f"`batched` is True, but `num_workers` is {count}: workers make single "
            "examples. Leave one of them out."
        )
    return WorkerSettings(count, context, worker_init_fn, max_restarts, in_order, seed)


def _check_context(context: Any) -> BaseContext:
    from multiprocessing.context import BaseContext

    if context is None:
        context = "spawn"
    method = context
    if isinstance(context, BaseContext):
        method = context.get_start_method()
    if method not in _METHODS:
        raise OptionError(
            f"`multiprocessing_context` is {context!r}; it must be 'spawn', "
            "'forkserver', or such a context: a fork has only one of its parent's "
            "threads, and all of their locks."
        )
    return context if isinstance(context, BaseContext) else _context(method)


def _context(method: str) -> BaseContext:
    import multiprocessing

    return multiprocessing.get_context(method)
