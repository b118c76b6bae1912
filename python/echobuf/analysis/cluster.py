"""`Cluster`: the ranks of a job, and the epochs that are predicted for them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from echobuf.analysis import cost_model
from echobuf.analysis.cost_model import Costs
from echobuf.analysis.measurements import Measurements
from echobuf.analysis.prediction import SHARES
from echobuf.arguments import check_int
from echobuf.errors import OptionError


class Cluster:
    """The ranks of a training job, with the storage and the network that they share.

    Args:
        ranks: number of processes that train.
        storage_rate: examples a second that storage gives to all ranks together; None:
            as many as it gave to the one process that was measured.
        peer_rate: examples a second that ranks fetch from each other's memory, all
            together; by default fetching from a peer costs nothing.
        shares: shares of the data set to predict for, each from 0 to 1, that the caches
            of all ranks hold together.

    Raises:
        OptionError: an argument is out of range.

    Examples:
        >>> from echobuf.analysis import Cluster
        >>> cluster = Cluster(8, storage_rate=20_000, peer_rate=100_000)
        >>> cluster.ranks, cluster.shares
        (8, (0.25, 0.5, 0.75, 1.0))
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
class ClusterEpoch:
    """A predicted epoch over all ranks, for one way of loading.

    Attributes:
        name: the way: "no cache", "partitioned", "locality-aware".
        share: share of the data set that the caches hold together.
        moved: share of the examples that come from a peer.
        loading_s: seconds of loading, if all ranks load in step.
        epoch_s: seconds for the epoch, without echoing.
        least_s: lower bound of `epoch_s`, if ranks run ahead of each other.
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
    """Return the costs per example, from measurements of one process and the rates.

    Preparation is upstream's time with warm caches; fetching is the time that the first
    pass took beyond that.
    """
    rate = cluster.storage_rate
    return Costs(
        storage_s=measured.storage_s if rate is None else 1 / rate,
        peer_s=1 / cluster.peer_rate,
        prepare_s=measured.upstream_s.mean,
        step_s=measured.step_s.mean,
    )


def cluster_epochs(
    measured: Measurements, cluster: Cluster, examples: int
) -> tuple[ClusterEpoch, ...]:
    """Predict an epoch of `examples` over all ranks, for each way of loading it.

    "no cache" is the only way where the storage's time is not known.
    """
    costs, ranks = costs_of(measured, cluster), cluster.ranks
    ways = [("no cache", 0.0, 0.0)]  # name, share, moved
    for share in cluster.shares if costs.storage_s else ():
        aware = cost_model.moved_locality_aware(share, ranks, measured.batch_size)
        ways += [
            ("partitioned", share, cost_model.moved_partitioned(share, ranks)),
            ("locality-aware", share, aware),
        ]
    found: list[ClusterEpoch] = []
    for name, share, moved in ways:
        loading = cost_model.loading_s(costs, ranks, 1 - share, moved)
        least = cost_model.least_loading_s(costs, ranks, 1 - share, moved)
        epoch = examples * cost_model.epoch_s(costs, ranks, loading)
        found.append(
            ClusterEpoch(
                name=name,
                share=share,
                moved=moved,
                loading_s=examples * loading,
                epoch_s=epoch,
                least_s=examples * cost_model.epoch_s(costs, ranks, least),
                speedup=found[0].epoch_s / epoch if found and epoch > 0 else 1.0,
            )
        )
    return tuple(found)


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
