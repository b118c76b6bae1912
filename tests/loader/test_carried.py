"""Leaves that are no arrays: batches have the objects themselves, in their order."""

import gc
import itertools
import json
import threading
import unittest.mock
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf import transforms
from helpers import until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]

KWARGS = {"batch_size": 4, "window": 8, "factor": 2}


class Thing:
    """An object that compares equal to nothing, and has a weak reference."""

    def __eq__(self, other):
        raise AssertionError("a carried object is compared")

    __hash__ = object.__hash__


class Examples:
    """Examples of arrays and objects; `objects` are those of each."""

    def __init__(self, n, make=lambda i: Thing()):
        self.objects = [make(i) for i in range(n)]

    def __len__(self):
        return len(self.objects)

    def __iter__(self):
        for i, thing in enumerate(self.objects):
            yield {
                "id": i,
                "thing": thing,
                "none": None,
                "deep": (f"text {i}", [thing]),
            }


def check(batch, objects):
    """Each use of each example has its objects; return its numbers."""
    ids = np.asarray(batch["id"]).astype(int).tolist()
    assert all(one is objects[i] for one, i in zip(batch["thing"], ids, strict=True))
    assert batch["none"] == [None] * len(ids)
    texts, (things,) = batch["deep"]
    assert texts == [f"text {i}" for i in ids]
    assert all(one is objects[i] for one, i in zip(things, ids, strict=True))
    return ids


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"factor": 2.5},
        {"factor": "auto"},
        {"prefetch": 2},
        {"drop_last": True, "batch_size": 3},
        {"overlap_epochs": True},
        {"with_info": True},
        {"transform": {"id": [transforms.ToDtype(np.float32)]}},
    ],
    ids=str,
)
def test_objects_come_with_their_arrays(more):
    upstream = Examples(41)
    loader = echobuf.EchoLoader(upstream, **{**KWARGS, **more})
    for _ in range(3):
        served = []
        for drawn in loader:
            batch = drawn[0] if more.get("with_info") else drawn
            ids = check(batch, upstream.objects)
            assert drawn is batch or ids == np.asarray(drawn[1].index).tolist()
            served += ids
        if not more.get("drop_last"):
            assert {*served} == {*range(41)}


def test_whole_batches_and_rows_have_lists():
    names = [f"n{i}" for i in range(24)]
    batches = [
        {"id": np.arange(i, i + 4), "name": names[i : i + 4], "of": f"b{i // 4}"}
        for i in range(0, 24, 4)
    ]
    for more in ({"batch_size": 6}, {"batch_size": None, "unit": "batch", "window": 3}):
        arguments = {**KWARGS, "batched": True, **more}
        for batch in echobuf.EchoLoader(batches, **arguments):
            ids = np.asarray(batch["id"]).tolist()
            assert batch["name"] == [names[i] for i in ids]
            assert batch["of"] == [f"b{i // 4}" for i in ids]
            batch["name"].clear()  # the list is the caller's


@pytest.mark.parametrize(
    "kind",
    ["packed", "padded", {"id": None, "tokens": "packed", "name": None}],
    ids=str,
)
def test_beside_ragged_leaves(kind):
    rows = [{"id": i, "tokens": np.arange(i % 5), "name": f"n{i}"} for i in range(30)]
    arguments = {**KWARGS, "payload_bytes": 4096, "ragged": kind}
    lists = [rows[i : i + 5] for i in range(0, 30, 5)]
    stacked = [
        {
            "id": np.array([row["id"] for row in some]),
            "tokens": [row["tokens"] for row in some],
            "name": [row["name"] for row in some],
        }
        for some in lists
    ]
    batched = {"batched": True}
    for upstream, more in ((rows, {}), (stacked, batched), (lists, batched)):
        for batch in echobuf.EchoLoader(upstream, **arguments, **more):
            ids = np.asarray(batch["id"]).tolist()
            assert batch["name"] == [f"n{i}" for i in ids]


def test_a_leaf_that_is_carried_cannot_be_ragged():
    rows = [{"tokens": np.arange(i), "name": "a"} for i in range(9)]
    ragged = {"tokens": "packed", "name": "packed"}
    loader = echobuf.EchoLoader(rows, **KWARGS, payload_bytes=4096, ragged=ragged)
    with pytest.raises(
        echobuf.OptionError, match=r"`ragged` names `example\['name'\]`"
    ):
        iter(loader)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_resumed_loader_carries_the_same(data):
    n = data.draw(st.integers(1, 60))
    arguments = {
        "batch_size": data.draw(st.integers(1, 5)),
        "window": data.draw(st.integers(15, 30)),
        "factor": data.draw(st.sampled_from([1, 2, 2.5, 3])),
        "prefetch": data.draw(st.integers(0, 2)),
    }
    upstream = Examples(n, str)
    loader = echobuf.EchoLoader(upstream, **arguments)
    batches = iter(loader)
    before = data.draw(st.integers(0, 30))
    for batch in itertools.islice(batches, before):
        check(batch, upstream.objects)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [check(batch, upstream.objects) for batch in batches]
    again = echobuf.EchoLoader(upstream, **arguments)
    again.load_state_dict(state)
    if state["epoch"] == 0:
        assert [check(batch, upstream.objects) for batch in again] == rest


def test_objects_live_as_long_as_their_records():
    things = []

    def fresh():
        for i in range(60):
            thing = Thing()
            things.append(weakref.ref(thing))
            yield {"id": i, "thing": thing}
            del thing

    loader = echobuf.EchoLoader(Anew(fresh), **KWARGS)
    newest = 0
    for batch in loader:
        newest = max(newest, *map(int, np.asarray(batch["id"])))
        del batch
        gc.collect()
        alive = [i for i, thing in enumerate(things) if thing() is not None]
        # The window, what is put ahead of it, and the one that upstream just made.
        assert not alive or alive[0] > newest - 3 * KWARGS["window"]
    gc.collect()
    assert all(thing() is None for thing in things)
    things.clear()
    batches = iter(loader)
    next(batches)
    assert any(thing() is not None for thing in things)
    del batches  # the loop was left
    until(lambda: gc.collect() is not None and all(thing() is None for thing in things))


class Anew:
    """An upstream that a generator makes anew in each epoch."""

    def __init__(self, make):
        self._make = make

    def __iter__(self):
        return self._make()


def test_an_object_may_refer_to_the_loader():
    box, things = {}, []

    def fresh():
        for i in range(1000):
            thing = Thing()
            thing.loader = box.get("loader")
            things.append(weakref.ref(thing))
            yield {"id": i, "thing": thing}
            del thing

    loader = box["loader"] = echobuf.EchoLoader(Anew(fresh), **KWARGS)
    batches = iter(loader)
    next(batches)
    box.clear()
    gone = weakref.ref(loader)
    del loader, batches
    until(lambda: gc.collect() is not None and gone() is None)
    until(lambda: gc.collect() is not None and all(thing() is None for thing in things))


def test_several_threads_draw():
    upstream = Examples(400)
    loader = echobuf.EchoLoader(upstream, **KWARGS)
    batches, served = iter(loader), []

    def draw():
        for batch in batches:
            served.extend(check(batch, upstream.objects))

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(served) == sorted([*range(400)] * 2)


@pytest.mark.parametrize(
    ("first", "later"),
    [(None, 3.5), ("a", np.ones(2)), (3.5, None), (np.ones(2), "a"), (b"", 7)],
    ids=str,
)
def test_a_leaf_is_an_array_or_an_object_in_all_examples(first, later):
    upstream = [{"id": i, "leaf": later if i == 5 else first} for i in range(9)]
    with pytest.raises(echobuf.ItemError, match=r"item 5 of upstream.*`example\['leaf"):
        for _ in echobuf.EchoLoader(upstream, **KWARGS):
            pass


def test_all_arrays_in_place_of_objects_are_named():
    first = {"id": 0, "a": "text", "b": None, "c": "text"}
    upstream = [first, {"id": 1, "a": 1.5, "b": 2.5, "c": np.ones(2)}]
    with pytest.raises(echobuf.ItemError) as caught:
        list(echobuf.EchoLoader(upstream, **KWARGS))
    said = str(caught.value)
    assert "`example['a']` is an array (float), where the first one has" in said
    assert "`example['c']` is an array (ndarray), where" in said
    assert "At fault, too: `example['b']`." in said


def test_without_carrying_all_leaves_are_named():
    loader = echobuf.EchoLoader(Examples(9), **KWARGS, carry=False)
    with pytest.raises(echobuf.SpecError) as caught:
        iter(loader)
    for name in ("thing", "none", "deep"):
        assert name in str(caught.value)


def test_a_lone_object_is_no_example():
    with pytest.raises(echobuf.SpecError):
        iter(echobuf.EchoLoader(["a", "b"], **KWARGS))


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_carry_is_a_bool(value):
    with pytest.raises(echobuf.OptionError, match="`carry` is"):
        echobuf.EchoLoader(range(9), **KWARGS, carry=value)


def test_packed_rows_carry_nothing_yet():
    upstream = [{"tokens": np.arange(3), "name": "a"}] * 9
    loader = echobuf.EchoLoader(upstream, batch_size=2, window=8, factor=2, pack_to=8)
    with pytest.raises(
        echobuf.OptionError, match=r"`pack_to` is 8.*`example\['name'\]`"
    ):
        iter(loader)


class RaisingMeta(type):
    def __getattr__(cls, name):
        raise RuntimeError(name)


class OfRaisingMeta(metaclass=RaisingMeta):
    pass


class RaisingClass:
    @property
    def __class__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "make",
    [OfRaisingMeta, RaisingClass, lambda: unittest.mock.Mock(spec=np.ndarray)],
    ids=["metaclass", "class", "mock"],
)
def test_nothing_is_asked_of_an_object(make):
    thing = make()
    upstream = [{"id": i, "thing": thing} for i in range(9)]
    for batch in echobuf.EchoLoader(upstream, **KWARGS):
        assert all(one is thing for one in batch["thing"])


class RaisingRepr:
    def __repr__(self):
        raise RuntimeError("repr")


def test_an_error_does_not_show_objects():
    upstream = [
        {"id": i, **({"thing": RaisingRepr()} if i == 5 else {})} for i in range(9)
    ]
    with pytest.raises(echobuf.ItemError, match=r"item 5 of upstream"):
        list(echobuf.EchoLoader(upstream, **KWARGS))
