"""The cost model: formulas on times per example, in seconds; ranks and their epochs.

Sources: Choi et al. 2019, "Faster Neural Network Training with Data Echoing"
(arXiv:1907.05550), for the times and the knee; Mohan et al. 2020, "Analyzing and
Mitigating Data Stalls in DNN Training" (arXiv:2007.06775), for stalls and caches;
Yang & Cong 2019, "Accelerating Data Loading in Deep Neural Network Training"
(arXiv:1910.01196), for ranks: the terms D / R, D / (p U) and D / (p V), equation 7 for
distributed caching and equation 8 for locality-aware loading, all with D = 1 example;
docs/analyze.md says how we know them. Not in the papers: the examples that
locality-aware loading moves, and the lower bound of the loading time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from echobuf.analysis.measurements import Estimate, Measurements
from echobuf.arguments import check_int, check_number
from echobuf.errors import OptionError

STALL_S = 50e-6
"""Waiting of more than this a batch, on average, is an input stall."""
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the data set that a cache may hold, to predict for."""


def fresh_s(upstream_s: float, step_s: float, factor: float) -> float:
    """Return the time of a fresh example: max(t_upstream, e * t_downstream).

    Choi et al., section 3: upstream and the step overlap, and the slower decides.
    """
    return max(upstream_s, factor * step_s)


def speedup(ratio: float, factor: float) -> float:
    """Return the speed-up of echoing for the same number of steps: min(e, R).

    It is max(R, 1) / max(R / e, 1), which is min(e, R) where R >= 1, and 1 elsewhere:
    up to the knee at e = R further steps are free, and beyond it each costs its time.
    """
    if math.isinf(ratio):
        return factor
    return max(ratio, 1.0) / max(ratio / factor, 1.0)


def effective_factor(ratio: float, most: float) -> float:
    """Return the factor at which "auto" settles: R, limited to 1 .. `most`."""
    return min(max(ratio, 1.0), most)


def quotient(above: Estimate, below: Estimate) -> Estimate:
    """Return the quotient of two independent means, with its interval.

    The logarithmic distances of the means from the ends of their intervals add up
    in quadrature. The quotient is infinite where `below` is zero.
    """
    count = min(above.count, below.count), min(above.blocks, below.blocks)
    if below.mean <= 0:
        return Estimate(math.inf, 0.0, math.inf, *count)
    mean = above.mean / below.mean
    down = math.hypot(_log(above.mean, above.low), _log(below.high, below.mean))
    up = math.hypot(_log(above.high, above.mean), _log(below.mean, below.low))
    try:
        high = mean * math.exp(up)
    except OverflowError:
        high = math.inf
    return Estimate(mean, mean * math.exp(-down), high, *count)


def _log(larger: float, smaller: float) -> float:
    """Return the logarithm of the quotient; infinite if the smaller is not positive."""
    if larger == smaller:
        return 0.0
    if smaller <= 0 or math.isinf(larger):
        return math.inf
    return math.log(larger) - math.log(smaller)


# ---- caches, storage and workers of one process


def hits_never_evicted(share: float) -> float:
    """Return the hit rate of a cache that holds `share` of the data and never evicts.

    Each epoch reads each example once, so every cached example is a hit: MinIO of
    Mohan et al., section 4.1.
    """
    return share


def hits_lru(share: float) -> float:
    """Return the hit rate of a least-recently-used cache of `share` of the data set.

    Derived for an epoch that is a fresh random permutation. An example at x of one
    epoch and y of the next (as shares of it) is still there if fewer than `share` of
    the others were asked for in between: those in the rest of the first epoch or in
    the beginning of the second, 1 - x * (1 - y). With x and 1 - y uniform, their
    product is above 1 - c with probability c + (1 - c) * ln(1 - c).
    """
    if share >= 1:
        return 1.0
    return share + (1 - share) * math.log1p(-share)


def cached_s(prepare_s: float, storage_s: float, hits: float) -> float:
    """Return t_upstream with a cache: a hit costs its preparation only."""
    return prepare_s + (1 - hits) * storage_s


def faster_storage_s(prepare_s: float, storage_s: float, times: float) -> float:
    """Return t_upstream with storage that is `times` times as fast."""
    return prepare_s + storage_s / times


def with_workers_s(serial_s: float, parallel_s: float, workers: int) -> float:
    """Return t_upstream with `workers` processes, each on a separate core.

    Amdahl's law: `parallel_s`, one process's time per example, is divided among the
    workers; `serial_s` is not.
    """
    return serial_s + parallel_s / max(1, workers)


def workers_to_keep_up(serial_s: float, parallel_s: float, step_s: float) -> int | None:
    """Return the fewest workers for t_upstream <= t_downstream; None if never."""
    room = step_s - serial_s
    if room <= 0:
        return None
    needed = parallel_s / room
    return max(1, math.ceil(needed * (1 - 1e-9))) if needed < 2**31 else None


# ---- several ranks: `share` is a, the share of the data set that all caches hold

_NEGLIGIBLE = 1e-16  # of a sum


@dataclass(frozen=True)
class Costs:
    """Seconds for each example of a job of p ranks."""

    storage_s: float  # read from storage, by all ranks together: 1 / R
    peer_s: float  # fetched from another rank's cache, by all: 1 / Rc = 1 / Rb
    prepare_s: float  # prepared by one rank: 1 / U
    step_s: float  # trained on by one rank: 1 / V


def moved_partitioned(share: float, ranks: int) -> float:
    """Return the share of examples that ranks fetch from peers' caches: a (p - 1) / p.

    The assignment of examples to ranks does not depend on the caches.
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
    no rank fetches from a peer while another reads from storage. `missed` and `moved`
    are the shares of the examples that come from storage and from peers.
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
        aware = moved_locality_aware(share, ranks, measured.batch_size)
        ways += [
            ("partitioned", share, moved_partitioned(share, ranks)),
            ("locality-aware", share, aware),
        ]
    found: list[ClusterEpoch] = []
    for name, share, moved in ways:
        loading = loading_s(costs, ranks, 1 - share, moved)
        least = least_loading_s(costs, ranks, 1 - share, moved)
        epoch = examples * epoch_s(costs, ranks, loading)
        found.append(
            ClusterEpoch(
                name=name,
                share=share,
                moved=moved,
                loading_s=examples * loading,
                epoch_s=epoch,
                least_s=examples * epoch_s(costs, ranks, least),
                speedup=found[0].epoch_s / epoch if found and epoch > 0 else 1.0,
            )
        )
    return tuple(found)


def _check_rate(name: str, value: Any) -> float:
    words = "a number > 0, of examples a second"
    return check_number(name, value, lambda x: x > 0, words)


def _check_share(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 <= value <= 1):
        raise OptionError(
            f"`shares` has {value!r}; a share of the data set is a number from 0 to 1."
        )
    return float(value)
