"""A comparison of batches, leaf by leaf."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import optree

from equal_arrays import assert_equal


def count_same(batches: Iterable[Any], others: Iterable[Any]) -> int:
    """Compare batches with others, dtypes too; return how many there are."""
    count = 0
    for batch, other in zip(batches, others, strict=True):
        leaves, structure = optree.tree_flatten(batch)
        expected, as_expected = optree.tree_flatten(other)
        assert structure == as_expected
        for leaf, wanted in zip(leaves, expected, strict=True):
            assert_equal(leaf, wanted)
            assert leaf.dtype == wanted.dtype
        count += 1
    return count
