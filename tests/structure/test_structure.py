"""Trees are taken apart and put together natively just as optree does it."""

import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import optree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import Field
from echobuf.loader_buffer import LoaderBuffer
from echobuf.spec import make_spec, make_structure
from echobuf.trees import NAMESPACE
from helpers import WAIT_S
from test_trees import same_keys

pytestmark = pytest.mark.contract

Pair = namedtuple("Pair", "x y")


class Swapped(Pair):
    """A named tuple that is not made of what it holds."""

    def __new__(cls, x, y):
        return super().__new__(cls, y, x)


class Node(namedtuple("Node", "x y")):
    """A named tuple that is a node of another kind."""


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # optree's, about named tuples
    optree.register_pytree_node(
        Node,
        lambda node: ([node.y], node.x),
        lambda x, y: Node(x, *y),
        namespace=NAMESPACE,
    )

KEYS = st.one_of(st.text("abc", max_size=2), st.integers(-3, 3), st.booleans())


def parts(children):
    """Nodes of every kind over children."""
    pairs = st.tuples(children, children)
    dicts = st.dictionaries(KEYS, children, max_size=4)
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.lists(children, max_size=3).map(deque),
        dicts,
        dicts,
        dicts.map(OrderedDict),
        dicts.map(lambda items: defaultdict(list, items)),
        pairs.map(lambda both: Pair(*both)),
        pairs.map(lambda both: Swapped(*both)),
        children.map(lambda child: Node("constant", child)),
    )


NATIVE = st.recursive(
    st.just(0) | st.none(),
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(KEYS, children, max_size=4),
        st.tuples(children, children).map(lambda both: Pair(*both)),
    ),
    max_leaves=12,
)
TREES = st.recursive(st.just(0) | st.none(), parts, max_leaves=12)


def structure_of(tree):
    return optree.tree_structure(tree, namespace=NAMESPACE)


def numbered(treespec, first=0):
    return treespec.unflatten(range(first, first + treespec.num_leaves))


def fits(treespec, tree):
    """The leaves as optree finds them; None if they are not all numbers."""
    try:
        leaves = treespec.flatten_up_to(tree)
    except (ValueError, TypeError):
        return None
    return leaves if all(type(leaf) is int for leaf in leaves) else None


@settings(max_examples=300)
@given(TREES | NATIVE)
def test_a_tree_is_put_together_as_optree_does_it(tree):
    treespec = structure_of(tree)
    leaves = list(range(treespec.num_leaves))
    got = make_structure(treespec).unflatten(leaves)
    expected = treespec.unflatten(leaves)
    assert repr(got) == repr(expected)  # with the order of the keys
    assert same_keys(got, expected)


class Probe:
    """A buffer of scalars in a structure; tells the leaves of what is put."""

    def __init__(self, treespec):
        self._count = treespec.num_leaves
        spec = treespec.unflatten([Field((), "i8")] * self._count)
        self.treespec = make_spec(spec).treespec  # a named tuple may have changed it
        self._buffer = LoaderBuffer(spec, batch_size=1, window=1, factor=1)

    def __call__(self, tree):
        outcome = self._buffer.core.put_tree(tree, False, 0)
        if outcome is not None:
            return None
        # Not `next_batch`, which would put them together.
        leaves = self._buffer.backend.next(WAIT_S)
        return [int(leaf[0]) for leaf in leaves]

    def close(self):
        self._buffer.__exit__(None, None, None)


@settings(max_examples=200)
@given(st.data())
def test_a_tree_is_taken_apart_as_optree_does_it(data):
    tree = data.draw(TREES | NATIVE)
    treespec = structure_of(tree)
    if not treespec.num_leaves:
        return
    probe = Probe(treespec)
    own = numbered(treespec, 7)
    other = numbered(structure_of(data.draw(TREES | NATIVE)))
    for item in (own, other):
        assert probe(item) == fits(probe.treespec, item)
    if type(own) is dict:  # in another order, and of another kind
        for kind in (dict, OrderedDict):
            item = kind(reversed(own.items()))
            assert probe(item) == fits(probe.treespec, item)
    probe.close()


class MyDict(dict):
    pass


class MyList(list):
    pass


class MyTuple(tuple):
    pass


class MyPair(Pair):
    pass


PUT = [
    ({"b": 1, "a": 2}, MyDict(b=1, a=2)),
    ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
    ({"b": 1, "a": 2}, {"a": 2}),
    ({"b": 1, "a": 2}, {"a": 2, "b": 1, "c": 3}),
    ({"b": 1, "a": 2}, {"a": 2, "c": 1}),
    ({1: 1, 2: 2}, {True: 1, 2.0: 2}),
    ([1, 2], MyList([1, 2])),
    ([1, 2], (1, 2)),
    ([1, 2], [1, 2, 3]),
    ([1, 2], [1]),
    ((1, 2), MyTuple([1, 2])),
    ((1, 2), [1, 2]),
    ((1, 2), Pair(1, 2)),
    (Pair(1, 2), (1, 2)),
    (Pair(1, 2), MyPair(1, 2)),
    (MyPair(1, 2), Pair(1, 2)),
    ((1, None), (1, None)),
    ((1, None), (1, 2)),
    ((1, 2), (1, None)),
    ((1, ()), (1, [])),
    ((1, {}), (1, OrderedDict())),
    (Node("constant", 1), Node("constant", 1)),
    (Node("constant", 1), Node("another", 1)),
    (Node("constant", 1), Pair("constant", 1)),
]


@pytest.mark.parametrize(("spec", "item"), PUT, ids=range(len(PUT)))
def test_derived_types_and_others_fit_as_optree_says(spec, item):
    treespec = structure_of(spec)
    probe = Probe(treespec)
    assert probe(item) == fits(probe.treespec, item)
    probe.close()


def test_a_deep_tree():
    tree, item = 0, np.int64(7)
    for kind in [list, tuple, "dict", "pair"] * 50:
        if kind == "dict":
            tree, item = {"k": tree, "n": None}, {"n": None, "k": item}
        elif kind == "pair":
            tree, item = Pair(tree, ()), Pair(item, ())
        else:
            tree, item = kind([tree]), kind([item])
    probe = Probe(structure_of(tree))
    assert probe(item) == [7]
    probe.close()
