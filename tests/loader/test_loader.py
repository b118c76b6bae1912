"""`EchoLoader`: what it wraps, how long it is, and what upstream may do to it."""

import threading
import weakref
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf.loader.loader import internals_of
from helpers import WAIT_S, largest_batch
from leaked_threads import no_feeder

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]

KWARGS = {"batch_size": 4, "window": 16, "factor": 2}


class Numbers:
    """An upstream of examples; begins anew with each `iter`."""

    def __init__(self, n, fail_at=None, error=ValueError):
        self.n = n
        self.fail_at = fail_at
        self.error = error
        self.threads = []

    def __iter__(self):
        self.threads = [threading.current_thread()]
        for number in range(self.n):
            if number == self.fail_at:
                raise self.error(f"no example {number}")
            self.threads.append(threading.current_thread())
            yield {"id": number, "x": np.full(3, number, np.float32)}


def numbers_of(batches, key="id"):
    return [number for batch in batches for number in batch[key].tolist()]


# ---- kinds of upstream


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 80), st.sampled_from([1, 2, 3, 2.5, 1.3]), st.data())
def test_a_list_of_examples(n, factor, data):
    window = data.draw(st.integers(4, 40))
    size = data.draw(st.integers(1, largest_batch(window, Fraction(str(factor)))))
    loader = echobuf.EchoLoader(
        [np.full(2, k) for k in range(n)],
        batch_size=size,
        window=window,
        factor=factor,
        drop_last=data.draw(st.booleans()),
        prefetch=data.draw(st.integers(0, 2)),
    )
    for _ in range(2):
        expected = len(loader)
        batches = list(loader)
        assert len(batches) == expected
        uses = Counter(int(row[0]) for batch in batches for row in batch)
        assert set(uses) <= set(range(n))
        assert all(use <= -int(-factor // 1) for use in uses.values())


def test_an_iterable_of_trees():
    loader = echobuf.EchoLoader(Numbers(20), **KWARGS)
    for batch in loader:
        assert type(batch["x"]) is np.ndarray
        assert batch["x"].shape == (4, 3)
        np.testing.assert_array_equal(batch["x"][:, 0], batch["id"])


@pytest.mark.parametrize("batch_size", [None, 6])
def test_batches_are_taken_apart(batch_size):
    batches = [{"id": np.arange(s, s + 5)} for s in range(0, 30, 5)]
    batches.append({"id": np.arange(30, 33)})
    kwargs = {**KWARGS, "batch_size": batch_size}
    loader = echobuf.EchoLoader(batches, batched=True, **kwargs)
    got = list(loader)
    assert {len(batch["id"]) for batch in got[:-1]} == {batch_size or 5}
    assert Counter(numbers_of(got)) == Counter(2 * list(range(33)))


@pytest.mark.parametrize("batched", [None, True])
def test_whole_batches_are_echoed(batched):
    batches = [np.arange(s, min(s + 5, 33)) for s in range(0, 33, 5)]
    loader = echobuf.EchoLoader(
        batches, unit="batch", batched=batched, window=3, factor=3
    )
    assert len(loader) == 21
    got = Counter(tuple(batch.tolist()) for batch in loader)
    assert got == {tuple(batch.tolist()): 3 for batch in batches}


@pytest.mark.parametrize("make", [iter, map, zip, filter, "generator"])
def test_a_one_shot_upstream_gives_one_epoch(make):
    data = [np.full(2, number) for number in range(1, 10)]
    upstream = {
        iter: lambda: iter(data),
        map: lambda: map(np.negative, data),
        zip: lambda: zip(data, data, strict=True),
        filter: lambda: filter(np.any, data),
        "generator": lambda: (each for each in data),
    }[make]()
    loader = echobuf.EchoLoader(upstream, **KWARGS)
    assert len(list(loader)) == 5
    for _ in range(2):
        with pytest.raises(echobuf.UpstreamError, match="one epoch only"):
            iter(loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_of_numpy(workers):
    dataset = [{"id": number} for number in range(33)]
    torch_data = pytest.importorskip("torch.utils.data")
    upstream = torch_data.DataLoader(dataset, batch_size=5, num_workers=workers)
    loader = echobuf.EchoLoader(upstream, batched=True, window=20, factor=2)
    assert len(loader) == 14
    for _ in range(2):
        got = list(loader)
        assert type(got[0]["id"]) is np.ndarray
        assert Counter(numbers_of(got)) == Counter(2 * list(range(33)))


# ---- few examples, and bad ones


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("factor", [1, 3, "auto"])
def test_few_examples(n, factor):
    loader = echobuf.EchoLoader(Numbers(n), **{**KWARGS, "factor": factor})
    for _ in range(3):
        uses = Counter(numbers_of(loader))
        assert sorted(uses) == list(range(n))
        assert all(
            1 <= use <= (8 if factor == "auto" else factor) for use in uses.values()
        )


@pytest.mark.parametrize("fail_at", [0, 1, 5, 30])
def test_an_exception_upstream_reaches_the_loop(fail_at):
    upstream = Numbers(40, fail_at)
    loader = echobuf.EchoLoader(upstream, **KWARGS)
    served = []
    epoch = iter(loader)
    for _ in range(2):
        with pytest.raises(echobuf.UpstreamError, match=f"no example {fail_at}") as got:
            served.extend(epoch)
        assert type(got.value.__cause__) is ValueError
    assert set(numbers_of(served)) <= set(range(fail_at))
    upstream.fail_at = None
    assert len(list(loader)) == 20


def test_an_error_of_an_upstream_that_cannot_begin():
    class Broken:
        def __iter__(self):
            raise OSError("no such file")

    loader = echobuf.EchoLoader(Broken(), **KWARGS)
    with pytest.raises(echobuf.UpstreamError, match="no such file"):
        list(loader)


@pytest.mark.parametrize("upstream", [3, None])
def test_what_cannot_be_iterated_is_refused(upstream):
    with pytest.raises(echobuf.OptionError, match="`upstream`"):
        echobuf.EchoLoader(upstream, **KWARGS)


BAD_ITEMS = [np.zeros(4), np.zeros(3, np.float32), {"x": np.zeros(3)}, "text", None]


@pytest.mark.parametrize("bad", BAD_ITEMS, ids=repr)
@pytest.mark.parametrize("at", [1, 30])
def test_an_item_unlike_the_first_is_a_clear_error(bad, at):
    items = [np.zeros(3)] * at + [bad] + [np.zeros(3)] * 9
    loader = echobuf.EchoLoader(items, **KWARGS)
    with pytest.raises(echobuf.UpstreamError, match="`example") as caught:
        list(loader)
    assert isinstance(caught.value, echobuf.SpecError)


@pytest.mark.parametrize("first", ["text", {"a": "text"}, None, [], np.array(["a"])])
def test_a_first_item_that_cannot_be_stored_is_a_clear_error(first):
    loader = echobuf.EchoLoader([first] * 9, **KWARGS)
    with pytest.raises(echobuf.SpecError, match="`"):
        list(loader)


@pytest.mark.parametrize(
    ("kwargs", "name"),
    [
        ({"batched": 1}, "`batched`"),
        ({"unit": "batch", "batch_size": None, "batched": False}, "`batched`"),
        ({"length": 2.5}, "`length`"),
        ({"factor": float("nan")}, "`factor`"),
        ({"window": 3}, "`window`"),
    ],
)
def test_arguments_are_checked_at_once(kwargs, name):
    with pytest.raises(echobuf.OptionError, match=name):
        echobuf.EchoLoader([], **{**KWARGS, **kwargs})


# ---- left half-way


def test_dropping_everything_half_way_ends_upstream():
    loader = echobuf.EchoLoader(Numbers(10**9), **KWARGS, prefetch=2)
    upstream = weakref.ref(internals_of(loader).upstream)
    for _, batch in zip(range(3), loader, strict=False):
        kept = batch["x"]
    expected = kept.tolist()
    del loader, batch
    no_feeder()
    assert upstream() is None
    assert kept.tolist() == expected


def test_breaking_out_stops_upstream_and_does_not_wait_for_it():
    goes_on, ended = threading.Event(), threading.Event()

    class Upstream:
        def __iter__(self):
            try:
                yield from [np.zeros(3)] * 20
                goes_on.wait(WAIT_S)
                yield np.zeros(3)
            finally:
                ended.set()

    loader = echobuf.EchoLoader(Upstream(), **KWARGS)
    for _ in loader:
        break
    goes_on.set()  # only now, after the break
    assert ended.wait(WAIT_S)
    del loader
    no_feeder()
