"""Formulas on times per example, as pure functions; times are in seconds.

Sources: Choi et al. 2019, "Faster Neural Network Training with Data Echoing"
(arXiv:1907.05550), for the times and the knee; Mohan et al. 2020, "Analyzing and
Mitigating Data Stalls in DNN Training" (arXiv:2007.06775), for stalls and caches.
"""

from __future__ import annotations

import math

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
        return Estimate(mean, mean * math.exp(-down), mean * math.exp(up), *count)
    except OverflowError:
        return Estimate(mean, mean * math.exp(-down), math.inf, *count)


def _log(larger: float, smaller: float) -> float:
    """Return the logarithm of the quotient; infinite if the smaller is not positive."""
    if larger == smaller:
        return 0.0
    if smaller <= 0 or math.isinf(larger):
        return math.inf
    return math.log(larger) - math.log(smaller)


def hits_never_evicted(share: float) -> float:
    """Return hit rate of a cache that never evicts and holds `share` of the data set.

    Each epoch reads each example once, so every cached example is a hit: MinIO of
    Mohan et al., section 4.1.
    """
    return share


def hits_lru(share: float) -> float:
    """Return hit rate of a least-recently-used cache of `share` of the data set.

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
