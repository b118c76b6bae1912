"""Formulas on times per example, in seconds, of one process and of several ranks.

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
from dataclasses import dataclass

from echobuf.analysis.measurements import Estimate

STALL_S = 50e-6
"""Waiting of more than this a batch, on average, is an input stall."""


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
