"""Trees are taken apart and put together natively just as optree does it."""

import gc
import sys
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from contextlib import suppress

import numpy as np
import optree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf import Field, _core
from echobuf.structure import make_structure
from echobuf.tree import NAMESPACE, make_spec
from helpers import WAIT_S, Worker
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
        self._buffer = echobuf.EchoBuffer(spec, batch_size=1, window=1, factor=1)
        # A draw puts together as well: whatever its structure, leaves are told.
        self._buffer._unflatten = list

    def __call__(self, tree):
        outcome = self._buffer._core.put_tree(tree, False, 0)
        if outcome is not None:
            return None
        leaves = self._buffer.next_batch(timeout=WAIT_S)
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


# ---- while code of others runs


class Key:
    """A key whose comparisons run code."""

    run = None

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return 1

    def __lt__(self, other):
        return self.name < other.name

    def __eq__(self, other):
        if Key.run is not None:
            Key.run()
        return self.name == other.name


def with_keys():
    """A tree whose keys are none of another such tree's, but equal to them."""
    inner = {Key("a"): np.int64(1), Key("b"): np.int64(2)}
    return [inner, [np.int64(3)], np.int64(4)]


def put_while(change):
    """What a put raises, with the tree changed in its middle."""
    with echobuf.EchoBuffer(with_keys(), batch_size=1, window=1, factor=1) as buffer:
        item = with_keys()

        def run():
            Key.run = None
            change(item)
            gc.collect()

        Key.run = run
        try:
            buffer.put(item)
        finally:
            Key.run = None


@pytest.mark.parametrize(
    "change",
    [
        lambda item: item.clear(),
        lambda item: item[0].clear(),
        lambda item: item[1].clear(),
        lambda item: item.__setitem__(1, None),
    ],
    ids=["all", "its dict", "a list", "a part"],
)
def test_a_tree_that_a_key_changes_is_refused(change):
    with pytest.raises(echobuf.SpecError, match="another structure"):
        put_while(change)


@pytest.mark.parametrize("kind", [KeyError, RuntimeError, KeyboardInterrupt])
def test_an_error_of_a_key_gets_through(kind):
    def change(_):
        raise kind("of a key")

    with pytest.raises(kind, match="of a key"):
        put_while(change)


@pytest.mark.parametrize("kind", [ValueError, TypeError])
def test_a_key_that_cannot_be_compared_is_of_another_structure(kind):
    def fail():
        raise kind("of a key")

    with echobuf.EchoBuffer(with_keys(), batch_size=1, window=1, factor=1) as buffer:
        item = with_keys()
        Key.run = fail
        try:
            assert buffer._core.put_tree(item, False, 0) == (_core.MISMATCH, 0)
        finally:
            Key.run = None


def test_a_tree_that_another_thread_changes():
    spec = {"a": np.zeros(50, "i8"), "b": [np.int64(0), np.int64(0)]}
    item = {**spec, "b": list(spec["b"])}
    ended = []

    def change():
        number = 0
        while not ended:
            number += 1
            item["b"].clear()
            item["b"].extend([np.int64(number), np.int64(number)])
            item["a"] = np.full(50, number)
            item["b"] = [np.int64(number), np.int64(number)]

    with echobuf.EchoBuffer(spec, batch_size=1, window=1, factor=1) as buffer:
        worker = Worker(change)
        for _ in range(3000):
            try:
                buffer.put(item)
            except echobuf.SpecError:
                continue
            batch = buffer.next_batch(timeout=WAIT_S)
            assert len(set(batch["a"][0].tolist())) == 1
        ended.append(True)
        worker.result()


# ---- references


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


# ---- scalars and arrays


SCALARS = [
    np.datetime64(1, "s"),
    np.timedelta64(1, "s"),
    np.void(b"a"),
    np.array((1,), [("a", "u1")])[()],
    np.str_("a"),
    np.bytes_(b"a"),
    np.int8(1),
    np.bool_(True),
    np.float32(1),
    np.uint64(1),
    np.array(1, ">u2"),
    np.array([1], "u1"),
    np.datetime64(1, "s").view("V8"),
]


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("shape", [(), (1,), (8,)])
def test_scalars_that_are_no_bytes_are_refused(scalar, shape):
    if np.asarray(scalar).dtype == "u1" and np.shape(scalar) == shape:
        return
    spec = Field(shape, "u1")
    with echobuf.EchoBuffer(spec, batch_size=1, window=1, factor=1) as buffer:
        with pytest.raises(echobuf.SpecError):
            buffer.put(scalar)
        buffer.close()
        assert list(buffer) == []


DTYPES = ["u1", "i2", "u8", "?", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[us]"]


@pytest.mark.parametrize("dtype", [*DTYPES, "V3", ">i4", ">f8"])
def test_scalars_and_arrays_without_axes_of_the_dtype_are_taken(dtype):
    zeros = np.zeros((), dtype)
    ones = np.frombuffer(b"\1" * zeros.nbytes, "?" if dtype == "?" else dtype)[0]
    with echobuf.EchoBuffer(zeros, batch_size=4, window=4, factor=1) as buffer:
        for array in (zeros, np.array(ones, dtype)):
            buffer.put(array)
            buffer.put(array if ">" in dtype else array[()])  # its scalars are native
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
    assert batch.dtype == zeros.dtype
    rows = batch.view(f"V{zeros.nbytes}").tolist()
    assert sorted(rows) == sorted([bytes(zeros.nbytes), b"\1" * zeros.nbytes] * 2)
