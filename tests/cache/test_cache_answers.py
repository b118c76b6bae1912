"""Sources that answer with too much, too little, or what holds itself."""

import re

import numpy as np
import pytest

import echobuf
from cache_data import Numbered, check, make


class Batched(Numbered):
    """A source whose `__getitems__` returns `answer` of the items."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def __getitems__(self, numbers):
        return self.answer([self[number] for number in numbers])


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (lambda items: items[:-1], "2 items"),
        (lambda items: [*items, None], "4 items"),
        (lambda items: [], "0 items"),
        (iter, "a list_iterator"),
        (lambda items: None, "a NoneType"),
        (lambda items: dict(enumerate(items)), "a dict"),
        (lambda items: "abc", "a str"),
    ],
)
def test_getitems_of_the_source_must_return_one_item_an_index(place, answer, got):
    source = Batched(answer)
    cached = make(place(), source=source)
    line = f"`dataset.__getitems__` returned {got} for 3 indices"
    with pytest.raises(echobuf.SpecError, match=re.escape(line)):
        cached.__getitems__([1, 2, 3])
    assert cached.stats().items == 0
    source.answer = tuple
    for number, one in zip([1, 2, 3], cached.__getitems__([1, 2, 3]), strict=True):
        check(one, number)


def nested(kind, depth):
    value = 1
    for _ in range(depth):
        value = {"a": value} if kind is dict else kind([value])
    return value


def cyclic(kind):
    inner = []
    value = {"a": inner} if kind is dict else kind([inner])
    inner.append(value)
    return value


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_an_item_that_contains_itself_or_is_nested_too_deeply_is_refused(place, kind):
    source = [cyclic(kind), nested(kind, 101), nested(kind, 50_000), 3]
    cached = make(place(), source=source, identity="nested")
    for number in range(3):
        with pytest.raises(echobuf.SpecError, match=r"`item.*100.*itself.*`prepare`"):
            cached[number]
    assert cached[3] == 3
    assert cached.stats().items == 1


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_the_deepest_item_is_served_again(place, kind):
    value = nested(kind, 100)
    cached = make(place(), source=[value])
    assert [cached[0], cached[0]] == [value, value]
    assert (cached.stats().hits, cached.stats().damaged) == (1, 0)


def test_rows_of_an_array_are_items(place):
    rows = np.arange(12).reshape(4, 3)
    source = Batched(lambda items: rows[: len(items)])
    got = make(place(), source=source).__getitems__([0, 1])
    np.testing.assert_array_equal(got, rows[:2])
