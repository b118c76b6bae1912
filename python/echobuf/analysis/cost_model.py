"""Time of an epoch on several ranks, by where its examples are; pure functions.

Source: Yang & Cong 2019, "Accelerating Data Loading in Deep Neural Network Training"
(arXiv:1910.01196), whose terms are D / R, D / (p U) and D / (p V), equation 7 for
distributed caching and equation 8 for locality-aware loading; docs/analyze.md says how
we know them. Everything is given for one example of the epoch, D = 1, in seconds.

Two things are ours: what locality-aware loading moves, and the bound from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    """Share of the examples that a rank fetches from a peer's cache: a (p - 1) / p.

    Args:
        share: a, of the data set, that the caches hold together, each another part.
        ranks: p. Which example comes to which rank has nothing to do with the caches.
    """
    return share * (ranks - 1) / ranks


def moved_locality_aware(share: float, ranks: int, local_batch: int) -> float:
    """The same where each rank takes what it holds, and only the surplus moves: a b.

    What a rank holds of a global batch is binomial: `ranks * local_batch` balls, each
    of which falls into its cache with probability a / p. What it holds beyond
    `local_batch` goes to a peer; ranks that are short are filled from storage first.
    For a = 1 it is the paper's imbalance b, which is simulated there.
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
    """Loading alone: storage, then peers, then preparation, which ranks share.

    So it is where ranks do one after the other in step, for each global batch: none
    asks its peers while another reads from storage.

    Args:
        costs: for each example.
        ranks: p.
        missed: share of the examples that come from storage, 1 - a.
        moved: share of them that come from peers.
    """
    fetched_s = _part(missed, costs.storage_s) + _part(moved, costs.peer_s)
    return fetched_s + costs.prepare_s / ranks


def least_loading_s(costs: Costs, ranks: int, missed: float, moved: float) -> float:
    """What loading takes at least, however far ranks are ahead of each other.

    Storage and network are busy all the time, or a rank is: it fetches alone, and
    prepares, one after the other.
    """
    storage_s, peers_s = _part(missed, costs.storage_s), _part(moved, costs.peer_s)
    return max(storage_s, peers_s, (storage_s + peers_s + costs.prepare_s) / ranks)


def epoch_s(costs: Costs, ranks: int, loading: float) -> float:
    """Loading and training at the same time: the slower decides."""
    return max(loading, costs.step_s / ranks)


def _part(share: float, seconds: float) -> float:
    return share * seconds if share else 0.0
