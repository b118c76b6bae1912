"""Upstreams and samplers that are their own iterator, epoch after epoch."""

import csv
from contextlib import suppress

import numpy as np
import pytest

import echobuf

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

KWARGS = {"batch_size": 4, "window": 8, "factor": 1}


class Counting:
    """An iterator over numbers that never begins anew."""

    def __init__(self, count=24):
        self.count = count
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 1
        if self.at > self.count:
            raise StopIteration
        return np.int64(self.at - 1)


class SetBack(Counting):
    """One that does in `__iter__`."""

    def __iter__(self):
        self.at = 0
        return self


class SetBackAtTheEnd(Counting):
    """One that does when it has ended."""

    def __next__(self):
        try:
            return super().__next__()
        except StopIteration:
            self.at = 0
            raise


class Wrapped:
    """An iterable that always gives the same iterator."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


def load(upstream, kind, **kwargs):
    if kind == "wrapped":
        upstream = Wrapped(upstream)
    elif kind != "itself":
        kwargs |= {"sampler": upstream, "num_workers": int(kind == "workers")}
        upstream = np.arange(24)
    return echobuf.EchoLoader(upstream, **KWARGS, **kwargs)


def numbers(loader):
    return sorted(np.concatenate([*loader]).tolist())


KINDS = ["itself", "wrapped", "sampler", "workers"]


@pytest.mark.parametrize("make", [SetBack, SetBackAtTheEnd])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("overlap", [False, True])
def test_each_iter_is_an_epoch(make, kind, overlap):
    with load(make(), kind, overlap_epochs=overlap) as loader:
        for _ in range(3):
            assert numbers(loader) == [*range(24)]
        if make is SetBack:
            next(iter(loader))
            assert numbers(loader) == [*range(24)]


ONE_SHOT = {
    "generator": lambda: (np.int64(i) for i in range(24)),
    "map": lambda: map(np.int64, range(24)),
    "counting": Counting,
}


@pytest.mark.parametrize("make", ONE_SHOT.values(), ids=ONE_SHOT)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("overlap", [False, True])
def test_one_that_is_used_up_is_an_error(make, kind, overlap):
    with load(make(), kind, overlap_epochs=overlap) as loader:
        if (kind, make) == ("wrapped", ONE_SHOT["map"]):
            pytest.skip("nothing tells that it is the same")
        assert numbers(loader) == [*range(24)]
        for _ in range(2):
            with pytest.raises(echobuf.UpstreamError, match="gives one epoch only"):
                next(iter(loader))


LEFT = {"generator": ONE_SHOT["generator"], "csv": lambda: csv.reader(["1", "2"] * 12)}


@pytest.mark.parametrize("make", LEFT.values(), ids=LEFT)
def test_the_rest_of_a_generator_is_no_epoch(make):
    with echobuf.EchoLoader(make(), **KWARGS) as loader:
        with suppress(echobuf.SpecError):  # words are taken from a file, and refused
            next(iter(loader))
        with pytest.raises(echobuf.UpstreamError, match="gives one epoch only"):
            iter(loader)


def test_an_epoch_that_has_become_empty_is_one_warning():
    class UsedUp:
        def __init__(self):
            self.source = iter(range(8))

        def __iter__(self):
            yield from self.source

    with echobuf.EchoLoader(UsedUp(), **KWARGS) as loader:
        assert numbers(loader) == [*range(8)]
        with pytest.warns(UserWarning, match="nothing in epoch 1.*begin anew") as found:
            assert [*loader] == []
        assert found[0].filename == __file__
        assert [*loader] == []  # and no second one


def test_an_epoch_that_is_empty_from_the_start_is_none():
    with echobuf.EchoLoader([], **KWARGS) as loader:
        assert [[*loader] for _ in range(2)] == [[], []]
