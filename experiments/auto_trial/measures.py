"""Measures of "auto": waiting, factor, time to follow a jump, uses, distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auto_trial.clock import Array, Pass, Run
from auto_trial.ring import Work
from auto_trial.upstreams import Shape, Upstream
from echobuf import _core

NEAR = 0.1
"""A factor has followed a jump once it is as near to the new R, or a segment is."""


def ratio(upstream: Upstream, fresh: int) -> float:
    """Return R of the first `fresh` examples, stops included, without back-pressure."""
    return Work(upstream.stops).clock(float(upstream.times[:fresh].sum())) / fresh


def least_wait(upstream: Upstream, fresh: int, max_factor: int) -> float:
    """Return the waiting that no schedule avoids, even with endless memory.

    Draw number `max_factor * i` at the earliest needs example i.
    """
    work = Work(upstream.stops)
    there = np.array([work.clock(at) for at in np.cumsum(upstream.times[:fresh])])
    return float(np.max(there - max_factor * np.arange(fresh)))


def recent_factor(passes: Sequence[Pass], draws: int) -> tuple[Array, Array]:
    """Return, by pass, the draws so far and the factor of the last `draws`."""
    done = np.cumsum([p.count for p in passes]).astype(float)
    ends = np.array([p.first + p.count for p in passes], dtype=float)
    all_done, all_ends = np.append(0.0, done), np.append(0.0, ends)
    fresh = ends - np.interp(done - draws, all_done, all_ends)
    taken = np.minimum(done, draws)
    with np.errstate(divide="ignore"):
        return done, np.where(fresh > 0, taken / fresh, np.inf)


@dataclass(frozen=True)
class Followed:
    """Response to a jump of R to `ratio`."""

    ratio: float
    passes: int
    draws: float


def follow(
    run: Run, jumps: Sequence[int], ratios: Sequence[float], shape: Shape
) -> list[Followed]:
    """Return the delay after each jump until the window's factor was near the new R.

    Jumps that were not followed before the next one are left out.
    """
    done, factor = recent_factor(run.passes, shape.window)
    schedule = _core.AutoSchedule(shape.window, shape.batch_size, shape.max_factor)
    fresh = shape.window / factor
    times = np.array([p.time for p in run.passes])
    arrived = np.array([p.committed for p in run.passes])
    begun = done - [p.count for p in run.passes]
    followed = []
    at_jump = np.interp(jumps, arrived, times).tolist()
    until = [*at_jump, float("inf")][1:]
    for at, over, new in zip(at_jump, until, ratios, strict=True):
        first, end = np.searchsorted(times, [at, over]).tolist()
        due = shape.window / new
        margin = max(NEAR * due, shape.window / schedule.segments)
        near = np.abs(fresh[first:end] - due) <= margin
        if not near.any():
            continue
        last = first + int(np.argmax(near))
        drawn = float(done[last] - np.interp(at, times, begun))
        followed.append(Followed(new, last - first + 1, drawn))
    return followed


@dataclass(frozen=True)
class Uses:
    """Uses of each fresh example, and draws between two uses of the same one."""

    counts: Array
    distances: Array


def uses(passes: Sequence[Pass], seed: int = 0) -> Uses:
    """Return the uses of every example, in the buffer's order."""
    drawn = np.concatenate(
        [
            p.first + _core.permutation(p.count, seed, 0, number, 0, p.count).ravel()
            for number, p in enumerate(passes)
        ]
    ).astype(np.int64)
    order = np.argsort(drawn, kind="stable")
    same = np.diff(drawn[order]) == 0
    return Uses(
        counts=np.bincount(drawn).astype(float),
        distances=np.diff(order)[same].astype(float),
    )
