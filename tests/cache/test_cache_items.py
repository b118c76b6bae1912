"""A cache serves the items of the source, and keeps those that fit."""

import collections
import copy
import math
import pickle
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import echobuf
from cache_data import COUNT, Numbered, check, check_all, item, make, size_of
from echobuf.cache import CachedDataset
from echobuf.cache.items import HEADER_BYTES

MODEL = settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SIZES = st.lists(st.integers(0, 3000), min_size=1, max_size=12)


@MODEL
@given(SIZES, st.integers(1, 8000), st.data())
def test_a_cache_behaves_as_a_dict_that_keeps_fitting_items(
    place, sizes, max_bytes, data
):
    source = [bytes([number]) * size for number, size in enumerate(sizes)]
    cached = make(place(), max_bytes, source=source)
    kept: dict[int, int] = {}
    hits = 0
    numbers = st.lists(st.integers(-len(source), len(source) - 1), max_size=30)
    for index in data.draw(numbers):
        number = index % len(source)
        hits += number in kept
        assert cached[index] == source[number]
        stats = cached.stats()
        assert stats.hits == hits
        size = size_of(source[number])
        if number not in kept and sum(kept.values()) + size <= max_bytes:
            kept[number] = size
        assert (stats.items, stats.bytes) == (len(kept), sum(kept.values()))
    assert (stats := cached.stats()).damaged == 0
    assert stats.hit_rate == hits / max(1, hits + stats.misses)


@pytest.mark.parametrize("share", [0.35, 0.5, 0.65])
def test_the_hit_rate_is_the_share_that_fits(place, share):
    source = [bytes([number]) * 700 for number in range(100)]
    cached = make(place(), int(share * 100 * size_of(source[0])), source=source)
    order = list(range(100))
    shuffle = random.Random(0).shuffle
    for epoch in range(4):
        shuffle(order)
        before = cached.stats().hits
        assert [cached[number] for number in order] == [source[n] for n in order]
        hits = cached.stats().hits - before
        assert hits == (round(share * 100) if epoch else 0)


def test_each_item_is_read_once(place):
    source = Numbered()
    cached = make(place(), source=source)
    for _ in range(3):
        check_all(cached)
    assert source.reads == list(range(COUNT))
    assert cached.stats().hits == 2 * COUNT


def test_served_items_are_the_callers_to_change(place):
    cached = make(place())
    for _ in range(3):
        got = cached[3]
        check(copy.copy(got), 3)
        got["x"][...] = 0


def test_items_are_prepared_once_and_transformed_each_time(place):
    prepared, transformed = [], []

    def prepare(got):
        prepared.append(got["y"])
        return got["x"].astype(np.float32)

    def transform(got):
        transformed.append(got)
        return got + len(transformed)

    cached = make(place(), prepare=prepare, transform=transform)
    for time in range(1, 4):
        np.testing.assert_array_equal(cached[7], item(7)["x"].astype("f4") + time)
    assert prepared == [7]


def same(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ndarray | np.generic):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert all(same(one[key], other[key]) for key in one)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        assert all(map(same, one, other))
    elif isinstance(one, float) and math.isnan(one):
        assert math.isnan(other)
    else:
        assert one == other
    return True


ITEMS = [
    None,
    (),
    {},
    [1, (2.5, math.nan, -math.inf), {"a": True, 3: "ä\n"}],
    (np.arange(6, dtype=">i4").reshape(2, 3).T, np.float16(3), np.array("abc")),
    {"empty": np.zeros((0, 3)), "time": np.array(["2020-01-01"], "M8[D]"), "b": b""},
    collections.OrderedDict(z=bytearray(b"x"), a={1, 2}, big=2**200, c=1j + np.ones(2)),
]


@pytest.mark.parametrize("value", ITEMS, ids=range(len(ITEMS)))
def test_items_come_back_exactly(place, value):
    cached = make(place(), source=[value])
    assert same(cached[0], value)
    assert same(cached[0], value)
    assert cached.stats().hits == 1


def test_tensors_come_back_exactly(place):
    torch = pytest.importorskip("torch")
    value = (torch.arange(6.0).reshape(2, 3).T, torch.ones(3, dtype=torch.bfloat16))
    cached = make(place(), source=[value])
    for _ in range(2):
        for got, expected in zip(cached[0], value, strict=True):
            assert got.dtype == expected.dtype
            assert torch.equal(got, expected)
    assert cached.stats().hits == 1


def test_getitems_returns_several_items(place):
    class Batched(Numbered):
        def __getitems__(self, numbers):
            calls.append(numbers)
            return [item(number) for number in numbers]

    calls = []
    for source in (Numbered(), Batched()):
        cached = make(place(), source=source)
        for numbers in ([3, 5, -1, 3], [5, 6, 7, 3], [6]):
            got = cached.__getitems__(numbers)
            for one, number in zip(got, numbers, strict=True):
                check(dict(one), number % COUNT)
        assert cached.__getitems__([]) == []
    assert calls == [[3, 5, COUNT - 1, 3], [6, 7]]


def test_iteration_ends_after_the_last_item(place):
    cached = make(place(), source=[1, 2, 3])
    assert list(cached) == [1, 2, 3]
    for index in (3, -4):
        with pytest.raises(IndexError, match="there are 3 items"):
            cached[index]
    with pytest.raises(TypeError, match="`index` is 'a'"):
        cached["a"]
    assert list(make(place(), source=np.zeros((0, 2)))) == []


def test_errors_of_the_source_pass_through(place):
    class Fails(Numbered):
        def __getitem__(self, number):
            raise OSError("gone")

    cached = make(place(), source=Fails())
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            cached[0]


class Anything:
    pass


def test_items_that_cannot_be_kept_are_named(place):
    image = pytest.importorskip("PIL.Image").new("RGB", (2, 2))
    for value, line in (
        ({"a": [Anything()]}, r"`item\['a'\]\[0\]` is of type .*Anything.*`prepare`"),
        ((image, 3), r"`item\[0\]` is of type PIL.*np\.asarray\(image\)"),
        (np.array([None]), "`item` has dtype object"),
    ):
        with pytest.raises(echobuf.SpecError, match=line):
            make(place(), source=[value])[0]


def test_a_copy_in_memory_begins_empty():
    cached = make()
    check_all(cached)
    for copied in (copy.deepcopy(cached), pickle.loads(pickle.dumps(cached))):
        check_all(copied)
        assert (copied.stats().hits, copied.stats().items) == (0, COUNT)
    assert cached.stats().hits == 0


def test_a_copy_on_disk_has_the_items(tmp_path):
    cached = make(tmp_path / "cache")
    check_all(cached)
    copied = pickle.loads(pickle.dumps(cached))
    check_all(copied)
    assert copied.stats().hits == COUNT


@pytest.mark.parametrize(
    ("kwargs", "line"),
    [
        ({"max_bytes": 0}, "`max_bytes` is 0; it must be an int from 1"),
        ({"max_bytes": 1.5}, "`max_bytes` is 1.5"),
        ({"prepare": 3}, "`prepare` is 3; it must be a function"),
        ({"transform": "x"}, "`transform` is 'x'; it must be a function"),
        ({"identity": ""}, "`identity` is ''; it must be a string"),
        ({"directory": 3}, "`directory` is 3; it must be a path"),
        ({"directory": ""}, "`directory` is ''; it must be a path"),
        ({"source": iter([1])}, "`dataset` is a list_iterator without __len__"),
    ],
)
def test_arguments_out_of_range_are_refused(kwargs, line):
    source = kwargs.pop("source", [1])
    with pytest.raises(echobuf.OptionError, match=line):
        CachedDataset(source, **{"max_bytes": 1000, **kwargs})


def test_more_than_the_available_memory_is_a_capacity_error():
    with pytest.raises(
        echobuf.CapacityError, match=r"`max_bytes` is 1,152,.*available"
    ):
        make(max_bytes=2**60)


def test_an_item_larger_than_the_cache_is_served(place):
    source = [bytes(5000), b"a"]
    cached = make(place(), 1000, source=source)
    for _ in range(2):
        assert list(cached) == source
    assert (cached.stats().items, cached.stats().hits) == (1, 1)
    assert make(place(), HEADER_BYTES - 1, source=[1])[0] == 1
