"""Native trees keep none of the objects that they took apart or put together."""

import gc
import sys
from collections import OrderedDict, namedtuple
from contextlib import suppress

import numpy as np
import optree
import pytest

import echobuf
from echobuf.spec import make_structure
from echobuf.trees import NAMESPACE
from helpers import WAIT_S

pytestmark = pytest.mark.contract

Pair = namedtuple("Pair", "x y")


def structure_of(tree):
    return optree.tree_structure(tree, none_is_leaf=False, namespace=NAMESPACE)


def counts_of(*objects):
    return [sys.getrefcount(each) for each in objects]


def test_nothing_keeps_what_was_put():
    leaf, scalar, nested = np.arange(3), np.int64(5), [np.float32(2)]
    whole = {"a": leaf, "b": (scalar, nested), "n": None}
    refused = [
        {**whole, "n": 1},
        {**whole, "a": leaf.astype("i4")},
        {**whole, "b": (scalar, nested, nested)},
        {**whole, "b": (scalar, [])},
        {"a": leaf, "b": (scalar, nested), "m": None},
        OrderedDict(whole, z=leaf),
    ]
    watched = (leaf, scalar, nested, nested[0], whole, *refused)
    with echobuf.EchoBuffer(whole, batch_size=2, window=2, factor=1) as buffer:
        before = counts_of(*watched)
        for _ in range(50):
            for item in refused:
                with pytest.raises(echobuf.SpecError):
                    buffer.put(item)
            with suppress(TimeoutError):
                while True:
                    buffer.put(whole, timeout=0)
            buffer.next_batch(timeout=WAIT_S)
            buffer.reset()
        item = None
        gc.collect()  # frames that errors keep
        assert counts_of(*watched) == before


def test_a_batch_is_all_that_keeps_its_leaves():
    tree = {"b": [1, (2, None)], "a": Pair(3, {"c": 4})}
    structure = make_structure(structure_of(tree))
    leaves = [object() for _ in range(4)]
    before = counts_of(*leaves)
    made = [structure.unflatten(list(leaves)) for _ in range(10)]
    assert counts_of(*leaves) == [count + 10 for count in before]
    del made
    assert counts_of(*leaves) == before


def test_a_named_tuple_that_cannot_be_made_keeps_nothing():
    leaves = [object() for _ in range(4)]

    class Strict(Pair):
        def __new__(cls, x, y):
            if x is leaves[1]:
                raise KeyError("strict")
            return super().__new__(cls, x, y)

    structure = make_structure(structure_of([0, Strict(1, 2), {"a": 3}]))
    before = counts_of(*leaves)
    with pytest.raises(KeyError, match="strict"):
        structure.unflatten(list(leaves))
    gc.collect()
    assert counts_of(*leaves) == before
