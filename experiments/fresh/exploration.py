"""Exploration of conditions by runs, new or logged, until the time is over."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from fresh.conditions import Condition
from fresh.run import Trial
from fresh.run_log import RunLog

__all__ = ["OutOfTimeError", "explore", "processes", "resumed"]

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R", bound=Trial)


class OutOfTimeError(Exception):
    """Error for an exceeded budget: no further run begins."""


class Search(Protocol[T_co]):
    """A tuning of conditions."""

    def of(self, condition: Condition) -> T_co:
        """Return the result of tuning a condition."""


def processes(jobs: int) -> ProcessPoolExecutor:
    """Return a pool that starts its processes with the first run that is not done."""
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=spawn)


def resumed(
    run_log: RunLog[R],
    measure: Callable[[R], dict[str, Any]],
    text_of: Callable[[R, dict[str, Any]], str],
    deadline: float,
) -> Callable[[R], dict[str, Any]]:
    """Return a function that looks outcomes up, or makes them until the deadline.

    Args:
        run_log: of the finished runs.
        measure: makes a run.
        text_of: says in a line what it gave.
        deadline: on the monotonic clock; after it the function raises OutOfTimeError.
    """

    def found(run: R) -> dict[str, Any]:
        row = run_log.find(run)
        if row is not None:
            return row
        if time.monotonic() >= deadline:
            raise OutOfTimeError
        outcome = measure(run)
        run_log.add(run, outcome)
        print(
            f"{run.workload}: {run.condition}, rate {run.rate:g}, seed {run.seed}: "
            f"{text_of(run, outcome)}",
            flush=True,
        )
        return outcome

    return found


def explore(
    searches: Mapping[str, Search[T_co]], wanted: list[Condition], jobs: int
) -> dict[str, list[T_co]]:
    """Tune conditions, of all workloads in turn; unfinished ones are left out."""
    asked = [(name, condition) for condition in wanted for name in searches]
    tuned: dict[str, list[T_co]] = {name: [] for name in searches}
    with ThreadPoolExecutor(jobs) as pool:
        futures = [
            (name, pool.submit(searches[name].of, condition))
            for name, condition in asked
        ]
        for name, future in futures:
            try:
                tuned[name].append(future.result())
            except OutOfTimeError:
                continue
    return tuned
