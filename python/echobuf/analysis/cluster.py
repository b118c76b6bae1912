"""Epochs of a job of several ranks: the cost model of caches, and its predictions.

Source: Yang & Cong 2019, "Accelerating Data Loading in Deep Neural Network Training"
(arXiv:1910.01196), whose terms are D / R, D / (p U) and D / (p V), equation 7 for
distributed caching and equation 8 for locality-aware loading; docs/analyze.md says how
we know them. Everything is given for one example of the epoch, D = 1, in seconds.

Two formulas are not in the paper: the examples that locality-aware loading moves, and
the lower bound of the loading time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from echobuf.analysis.measurements import Measurements
from echobuf.analysis.prediction import SHARES, storage_s
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
    """Return the costs per example, from the measurements and the cluster's rates.

    Preparation is upstream's time with warm caches; fetching is the time that the first
    pass took beyond that.
    """
    rate = cluster.storage_rate
    return Costs(
        storage_s=storage_s(measured) if rate is None else 1 / rate,
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
    bare = _way("no cache", costs, ranks, examples, 0.0, 0.0, None)
    if not costs.storage_s:
        return (bare,)
    found = [bare]
    for share in cluster.shares:
        moved = {
            "partitioned": moved_partitioned(share, ranks),
            "locality-aware": moved_locality_aware(share, ranks, measured.batch_size),
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
    bare: ClusterEpoch | None,
) -> ClusterEpoch:
    missed = 1 - share
    loading = loading_s(costs, ranks, missed, moved)
    least = least_loading_s(costs, ranks, missed, moved)
    epoch = examples * epoch_s(costs, ranks, loading)
    return ClusterEpoch(
        name=name,
        share=share,
        moved=moved,
        loading_s=examples * loading,
        epoch_s=epoch,
        least_s=examples * epoch_s(costs, ranks, least),
        speedup=bare.epoch_s / epoch if bare is not None and epoch > 0 else 1.0,
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


_NEGLIGIBLE = 1e-16  # of a sum


@dataclass(frozen=True)
class Costs:
    """Seconds for each example.

    Attributes:
        storage_s: read from storage, by all ranks together: 1 / R.
        peer_s: fetched from another rank's cache, by all together: 1 / Rc = 1 / Rb.
        prepare_s: prepared by one rank: 1 / U.
        step_s: trained on by one rank: 1 / V.
    """

    storage_s: float
    peer_s: float
    prepare_s: float
    step_s: float


def moved_partitioned(share: float, ranks: int) -> float:
    """Return the share of examples that ranks fetch from peers' caches: a (p - 1) / p.

    Args:
        share: a, the share of the data set that the caches, all different, hold.
        ranks: p. The assignment of examples to ranks does not depend on the caches.
    """
    return share * (ranks - 1) / ranks


def moved_locality_aware(share: float, ranks: int, local_batch: int) -> float:
    """Return the same share where ranks use their own caches first: a b.

    The number of examples of a global batch in a rank's cache is binomial:
    `ranks * local_batch` balls, each of which falls into the cache with probability
    a / p. The surplus over `local_batch` moves to a peer; ranks with fewer are filled
    from storage first. For a = 1 this is the paper's imbalance b, which is simulated
    there.
    """
    balls, chance = ranks * local_batch, share / ranks
    if ranks == 1 or not chance:
        return 0.0
    held = local_batch + 1
    term = math.exp(_log_binomial(balls, held, chance))
    total = 0.0
    while held <= balls:
        total += (held - local_batch) * term
        if (held - local_batch) * term <= _NEGLIGIBLE * total:
            break
        term *= (balls - held) / (held + 1) * chance / (1 - chance)
        held += 1
    return min(total / local_batch, share)


def _log_binomial(count: int, hits: int, chance: float) -> float:
    ways = math.lgamma(count + 1) - math.lgamma(hits + 1)
    ways -= math.lgamma(count - hits + 1)
    return ways + hits * math.log(chance) + (count - hits) * math.log1p(-chance)


def loading_s(costs: Costs, ranks: int, missed: float, moved: float) -> float:
    """Return the time of loading alone: storage, then peers, then preparation.

    Ranks share the preparation, and go through the three in step for each global batch:
    no rank fetches from a peer while another reads from storage.

    Args:
        costs: for each example.
        ranks: p.
        missed: share of the examples that come from storage, 1 - a.
        moved: share of the examples that come from peers.
    """
    fetched_s = _part(missed, costs.storage_s) + _part(moved, costs.peer_s)
    return fetched_s + costs.prepare_s / ranks


def least_loading_s(costs: Costs, ranks: int, missed: float, moved: float) -> float:
    """Return the lower bound of the loading time, if ranks run ahead of each other.

    Storage or network is busy all the time, or a rank is, which fetches and prepares
    one after the other.
    """
    storage_s, peers_s = _part(missed, costs.storage_s), _part(moved, costs.peer_s)
    return max(storage_s, peers_s, (storage_s + peers_s + costs.prepare_s) / ranks)


def epoch_s(costs: Costs, ranks: int, loading: float) -> float:
    """Return the time of loading beside training: the slower of the two decides."""
    return max(loading, costs.step_s / ranks)


def _part(share: float, seconds: float) -> float:
    return share * seconds if share else 0.0
