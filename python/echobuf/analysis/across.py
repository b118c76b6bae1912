"""A job of several ranks: what caches would bring to it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from echobuf.analysis import cost_model
from echobuf.analysis.cost_model import Costs
from echobuf.analysis.measurements import Measurements
from echobuf.analysis.others import SHARES, storage_s
from echobuf.errors import OptionError
from echobuf.options import check_int


class Cluster:
    """The ranks of a job, and what they share.

    Args:
        ranks: how many there are, one for each process that trains.
        storage_rate: examples a second that storage gives to all ranks together; None:
            as many as it gave to the one process that was measured.
        peer_rate: examples a second that ranks fetch from each other's memory, all
            together; unless told that costs nothing.
        shares: of the data set, that the caches of all ranks hold together.

    Raises:
        OptionError: an argument is out of range.
    """

    def __init__(
        self,
        ranks: int,
        *,
        storage_rate: float | None = None,
        peer_rate: float = math.inf,
        shares: Iterable[float] = SHARES,
    ) -> None:
        self.ranks = check_int("ranks", ranks, 1, 2**31 - 1)
        self.storage_rate = (
            None if storage_rate is None else _check_rate("storage_rate", storage_rate)
        )
        self.peer_rate = _check_rate("peer_rate", peer_rate)
        self.shares = tuple(map(_check_share, shares))


@dataclass(frozen=True)
class Across:
    """An epoch on all ranks, loaded in one way.

    Attributes:
        name: the way: "no cache", "partitioned", "locality-aware".
        share: of the data set, that the caches hold together.
        moved: share of the examples that come from a peer.
        loading_s: seconds that loading takes, if ranks load in step.
        epoch_s: seconds for the epoch, without echoing.
        least_s: the same at the least, if ranks are ahead of each other.
        speedup: of `epoch_s`, over that without a cache on as many ranks.
    """

    name: str
    share: float
    moved: float
    loading_s: float
    epoch_s: float
    least_s: float
    speedup: float


def costs_of(measured: Measurements, cluster: Cluster) -> Costs:
    """What was measured, and what is known of the cluster.

    Preparation is what upstream took with warm caches, and fetching what a first pass
    took beyond that.
    """
    rate = cluster.storage_rate
    return Costs(
        storage_s=storage_s(measured) if rate is None else 1 / rate,
        peer_s=1 / cluster.peer_rate,
        prepare_s=measured.upstream_s.mean,
        step_s=measured.step_s.mean,
    )


def ways(measured: Measurements, cluster: Cluster, examples: int) -> tuple[Across, ...]:
    """Every way to load an epoch of so many examples, all ranks together.

    Without a cache alone, where nothing is known of storage.
    """
    costs, ranks = costs_of(measured, cluster), cluster.ranks
    bare = _way("no cache", costs, ranks, examples, 0.0, 0.0, None)
    if not costs.storage_s:
        return (bare,)
    found = [bare]
    for share in cluster.shares:
        moved = {
            "partitioned": cost_model.moved_partitioned(share, ranks),
            "locality-aware": cost_model.moved_locality_aware(
                share, ranks, measured.batch_size
            ),
        }
        found += [
            _way(name, costs, ranks, examples, share, part, bare)
            for name, part in moved.items()
        ]
    return tuple(found)


def _way(
    name: str,
    costs: Costs,
    ranks: int,
    examples: int,
    share: float,
    moved: float,
    bare: Across | None,
) -> Across:
    missed = 1 - share
    loading_s = cost_model.loading_s(costs, ranks, missed, moved)
    least_s = cost_model.least_loading_s(costs, ranks, missed, moved)
    epoch_s = examples * cost_model.epoch_s(costs, ranks, loading_s)
    return Across(
        name=name,
        share=share,
        moved=moved,
        loading_s=examples * loading_s,
        epoch_s=epoch_s,
        least_s=examples * cost_model.epoch_s(costs, ranks, least_s),
        speedup=bare.epoch_s / epoch_s if bare is not None and epoch_s > 0 else 1.0,
    )


def _check_rate(name: str, value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and value > 0):
        raise OptionError(
            f"`{name}` is {value!r}; it must be a number > 0, of examples a second."
        )
    return float(value)


def _check_share(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 <= value <= 1):
        raise OptionError(
            f"`shares` has {value!r}; a share of the data set is a number from 0 to 1."
        )
    return float(value)
