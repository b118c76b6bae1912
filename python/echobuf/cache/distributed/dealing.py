"""Who takes which example of a global batch: each rank what it holds, as far as it may.

Locality-aware loading (Yang & Cong 2019, arXiv:1910.01196).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NOBODY = -1
"""In place of a rank that holds an item."""


def deal(holders: NDArray[np.integer], ranks: int) -> NDArray[np.int64]:
    """The rank that takes each example of a global batch; all take as many.

    A rank takes what it holds, up to its part of the batch: the first of it, in the
    order of the batch. What is over, and what nobody holds, goes to the ranks that lack
    some. So as few as possible are taken by another rank than the one that holds them,
    and they go between at most `ranks - 1` pairs of ranks.

    Args:
        holders: the rank that holds each example, or `NOBODY`.
        ranks: how many; their parts are equal.
    """
    part = len(holders) // ranks
    # NumPy sorts 16 bits by radix. What nobody holds comes first.
    short = holders.astype(np.int16) if ranks <= 2**15 else holders
    order = np.argsort(short, kind="stable")
    held_by = holders[order]
    counts = counts_of(holders, ranks)
    begins = len(holders) - counts[::-1].cumsum()[::-1]
    stays = held_by != NOBODY
    stays[stays] = (np.arange(len(holders)) - begins[held_by])[stays] < part
    takers = held_by.astype(np.int64)
    lacking = part - np.minimum(counts, part)
    takers[~stays] = np.repeat(np.arange(ranks), lacking)
    dealt = np.empty(len(holders), np.int64)
    dealt[order] = takers
    return dealt


def counts_of(holders: NDArray[np.integer], ranks: int) -> NDArray[np.int64]:
    """How many examples of a global batch each rank holds."""
    return np.bincount(holders[holders != NOBODY], minlength=ranks)


def imbalance(counts: NDArray[np.integer]) -> float:
    """What has to move before all ranks have as many, as a share of the batch.

    The sum of what ranks lack, over the size of the batch.

    Args:
        counts: of the examples that each rank holds.
    """
    part = counts.sum() / len(counts)
    return float(np.maximum(part - counts, 0).sum() / counts.sum())
