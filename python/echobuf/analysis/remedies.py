"""Remedies upstream and their speed-ups: workers, caches, faster storage."""

from __future__ import annotations

from dataclasses import dataclass

from echobuf.analysis import formulas
from echobuf.analysis.measurements import Measurements

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the data set that a cache may hold, to predict for."""

_FASTER = (2.0, 10.0)


@dataclass(frozen=True)
class Remedy:
    """A change upstream, with the time per fresh example that follows.

    Attributes:
        name: the change, in a few words.
        upstream_s: t_upstream, seconds per fresh example, after the change.
        speedup: of an epoch without echoing, over the same epoch before the change.
        note: the assumption behind it.
    """

    name: str
    upstream_s: float
    speedup: float
    note: str


def storage_s(measured: Measurements) -> float:
    """Return the first pass's extra seconds per example: the time of the storage.

    Zero if the intervals of both passes overlap, or if there was one pass only.
    """
    first, second = measured.upstream_first_s, measured.upstream_second_s
    if second is None or first.low <= second.high:
        return 0.0
    return first.mean - second.mean


def remedies(measured: Measurements) -> tuple[Remedy, ...]:
    """List the remedies that apply to this upstream."""
    return (*_workers(measured), *_caches(measured), *_storage(measured))


def parallel_s(measured: Measurements) -> float:
    """Return one process's seconds per example that workers could share."""
    upstream_s = measured.upstream_s.mean
    parts = measured.loader
    if parts is None:
        return upstream_s
    return min(parts.fetch_s + parts.collate_s, upstream_s * max(1, parts.workers))


def serial_s(measured: Measurements) -> float:
    """Return seconds per example that remain however many workers there are."""
    workers = 1 if measured.loader is None else max(1, measured.loader.workers)
    return max(0.0, measured.upstream_s.mean - parallel_s(measured) / workers)


def _workers(measured: Measurements) -> list[Remedy]:
    serial, parallel = serial_s(measured), parallel_s(measured)
    now = 1 if measured.loader is None else max(1, measured.loader.workers)
    numbers = {2 * now, 4 * now}
    enough = formulas.workers_to_keep_up(serial, parallel, measured.step_s.mean)
    if enough is not None and now < enough:
        numbers.add(enough)
    before = measured.upstream_s.mean
    return [
        _remedy(
            measured,
            f"{number:,} workers" + (" (R = 1)" if number == enough else ""),
            before,
            formulas.with_workers_s(serial, parallel, number),
            "on free cores",
        )
        for number in sorted(numbers)
    ]


def _caches(measured: Measurements) -> list[Remedy]:
    storage = storage_s(measured)
    if storage == 0:
        return []
    before = measured.upstream_first_s.mean
    kinds = (
        ("never evicts", formulas.hits_never_evicted),
        ("LRU", formulas.hits_lru),
    )
    return [
        _remedy(
            measured,
            f"cache of {share:.0%}, {kind}",
            before,
            formulas.cached_s(before - storage, storage, hits(share)),
            f"{hits(share):.0%} hits",
        )
        for share in SHARES
        for kind, hits in kinds
        if share < 1 or kind != "LRU"
    ]


def _storage(measured: Measurements) -> list[Remedy]:
    storage = storage_s(measured)
    if storage == 0:
        return []
    before = measured.upstream_first_s.mean
    return [
        _remedy(
            measured,
            f"storage {times:g} times as fast",
            before,
            formulas.faster_storage_s(before - storage, storage, times),
            "first pass",
        )
        for times in _FASTER
    ]


def _remedy(
    measured: Measurements, name: str, before: float, after: float, note: str
) -> Remedy:
    old, new = (
        formulas.fresh_s(upstream, measured.step_s.mean, 1)
        for upstream in (before, after)
    )
    return Remedy(name, after, old / new if new > 0 else 1.0, note)
