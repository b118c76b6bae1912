"""Runs of upstream's items that the core puts are what items put one by one are."""

import itertools
import json
import operator
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf.loader.feeder import ItemFeeder
from echobuf.loader_buffer import LoaderBuffer
from helpers import WAIT_S, Worker
from opened_states import opened

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]

KWARGS = {"batch_size": 4, "window": 12, "factor": 2, "seed": 3}


def example(number, plain=True):
    """An example; one that is not plain is taken by Python alone."""
    row = np.arange(number, number + 6)
    return {"id": np.int64(number), "x": row[:3] if plain else row.repeat(2)[:6:2]}


def stacked(numbers, plain=True):
    """Examples as one batch."""
    ids = np.asarray(numbers, np.int64).reshape(-1)
    rows = ids[:, None] + np.arange(3)
    return {"id": ids, "x": rows if plain else np.asfortranarray(rows)}


class Tape:
    """Items by number, with a state; notes where it was asked for."""

    def __init__(self, items, error=None):
        self.items = items
        self.error = error
        self.asked = []
        self._at = self._begin = 0

    def __iter__(self):
        self._at, self._begin = self._begin, 0
        while self._at < len(self.items):
            self._at += 1
            yield self.items[self._at - 1]
        if self.error is not None:
            raise self.error

    def state_dict(self):
        self.asked.append(self._at)
        return {"at": self._at}

    def load_state_dict(self, state):
        self._begin = state["at"]


class StatelessTape:
    """Items alone, through iterators that are written in C."""

    asked = None

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return map(operator.itemgetter(0), zip(self.items, strict=True))


def rows_of(batch):
    """A batch as lists, none of whose rows is torn."""
    np.testing.assert_array_equal(batch["x"], batch["id"][:, None] + np.arange(3))
    return batch["id"].tolist()


def state_of(loader):
    """The state of a loader, but for the end of upstream: timing says when it comes."""
    state = opened(json.loads(json.dumps(loader.state_dict())))
    del state["checksum"]
    if state["position"] is not None:
        state["position"]["upstream_length"] = None
    return state


def walk(make, epochs=2, cut=None):
    """All that can be seen of a loader: batches, states, where upstream was asked."""
    tape = make()
    loader = tape.loader
    seen = []
    for number in range(epochs):
        states = []
        try:
            for batch in loader:
                seen += states
                seen.append(rows_of(batch))
                states = [state_of(loader)]
        except echobuf.UpstreamError as error:
            return str(error), tape.asked
        # Timing says whether the last batch was known to be the last when it came.
        seen += [state_of(loader), number]
    loader.close()
    return seen, tape.asked


def recorded(items, kind=Tape, **kwargs):
    """Return a maker of a loader over items; its upstream is in `tape`."""

    def make():
        tape = kind(items)
        tape.loader = echobuf.EchoLoader(tape, **{**KWARGS, **kwargs})
        return tape

    return make


class OneByOne:
    """The slow reference: within it the core looks at no item before Python."""

    def __enter__(self):
        self._own = ItemFeeder.most_at_once
        ItemFeeder.most_at_once = lambda feeder: 0

    def __exit__(self, *_):
        ItemFeeder.most_at_once = self._own


def check(make, *, ahead=False, **kwargs):
    """Compare a loader with the slow reference; return what both say.

    `ahead`: another epoch may have been begun, so that upstream was asked for more.
    """
    with OneByOne():
        expected, expected_asked = walk(make, **kwargs)
    seen, asked = walk(make, **kwargs)
    assert seen == expected
    assert ahead or asked == expected_asked
    return seen, asked


def items_of(plain, sizes=None):
    """Examples, or batches of these sizes, plain or not."""
    if sizes is None:
        return [example(*each) for each in enumerate(plain)]
    ends = list(itertools.accumulate(sizes))
    return [
        stacked(range(end - size, end), each)
        for each, size, end in zip(plain, sizes, ends, strict=True)
    ]


@settings(max_examples=60)
@given(st.data())
def test_random_items_come_as_if_put_one_by_one(data):
    plain = data.draw(st.lists(st.booleans() | st.just(True), min_size=1, max_size=150))
    window = data.draw(st.integers(4, 30))
    kwargs = {
        "window": window,
        "batch_size": data.draw(st.integers(1, window // 2)),
        "factor": data.draw(st.sampled_from([1, 2, 1.5])),
        "prefetch": data.draw(st.integers(0, 2)),
        "overlap_epochs": data.draw(st.booleans()),
    }
    sizes = None
    if data.draw(st.booleans()):
        size = st.integers(1, 9)
        sizes = data.draw(st.lists(size, min_size=len(plain), max_size=len(plain)))
        kwargs["batched"] = True
    kind = data.draw(st.sampled_from([Tape, StatelessTape]))
    if kind is Tape and sizes is not None:
        sizes = [sizes[0]] * len(plain)  # a state that goes on needs no more
    make = recorded(items_of(plain, sizes), kind, **kwargs)
    seen, _ = check(make, ahead=kwargs["overlap_epochs"])
    served = [i for each in seen if isinstance(each, list) for i in each]
    count = len(plain) if sizes is None else sum(sizes)
    assert set(served) == set(range(count))


@pytest.mark.parametrize("factor", [1, 2, 2.5])
def test_upstream_is_asked_for_its_state_at_the_same_places(factor):
    _, asked = check(recorded(items_of([True] * 100), factor=factor), epochs=1)
    assert len(asked) > 5
    assert len(asked) < 100


@pytest.mark.parametrize("factor", [1, 2])
def test_a_resumed_loader_skips_and_goes_on(factor):
    make = recorded(items_of([True] * 100), factor=factor)
    tape, seen = make(), []
    for batch in tape.loader:
        state = json.loads(json.dumps(tape.loader.state_dict()))
        seen.append((rows_of(batch), state))
    for at in range(0, len(seen) - 1, 5):
        for left_out in ((), ("upstream",)):
            state = {k: v for k, v in seen[at][1].items() if k not in left_out}
            loader = make().loader
            loader.load_state_dict(state)
            assert list(map(rows_of, loader)) == [rows for rows, _ in seen[at + 1 :]]
            loader.close()


# ---- what ends a run


MISFIT = {"id": np.int64(0), "x": np.zeros(3, "f4")}
EVERY = pytest.mark.parametrize("at", [1, 2, 7, 63])


@EVERY
@pytest.mark.parametrize("kind", [Tape, StatelessTape])
@pytest.mark.parametrize("plain", [[True], [False], [True, False, True]])
@pytest.mark.parametrize("batched", [False, True])
def test_a_misfit_is_named_by_its_index(at, kind, plain, batched):
    patterns = list(itertools.islice(itertools.cycle(plain), 80))
    items = items_of(patterns, [3] * 80 if batched else None)
    items[at] = {"id": items[at]["id"], "x": items[at]["x"].astype("f4")}
    seen, _ = check(recorded(items, kind, batched=batched), epochs=1)
    assert seen.startswith(f"item {at} of upstream does not fit the first one: `")
    assert "has dtype float32; the spec says int64" in seen


@EVERY
@pytest.mark.parametrize("kind", [KeyError, StopAsyncIteration, KeyboardInterrupt])
def test_what_upstream_raises_is_the_cause(at, kind):
    raised = kind("of upstream")
    tape = Tape(items_of([True] * at), raised)
    loader = echobuf.EchoLoader(tape, **KWARGS)
    with pytest.raises(echobuf.UpstreamError) as error:
        list(loader)
    assert error.value.__cause__ is raised


def test_an_end_of_a_derived_type_is_an_end():
    class End(StopIteration):
        pass

    class Items:
        def __init__(self):
            self.number = -1

        def __iter__(self):
            return self

        def __next__(self):
            self.number += 1
            if self.number == 50:
                raise End
            return example(self.number)

    loader = echobuf.EchoLoader(Items(), **{**KWARGS, "factor": 1})
    assert sorted(i for b in loader for i in rows_of(b)) == list(range(50))


def test_nothing_keeps_items_or_what_upstream_raised():
    item = example(1)
    watched = [item, item["x"], item["id"]]
    before = [sys.getrefcount(each) for each in watched]

    def failing():
        yield from [item] * 30
        raise KeyError

    for items in ([item] * 50, failing(), [item] * 30 + [MISFIT]):
        loader = echobuf.EchoLoader(items, **KWARGS)
        try:
            for _ in loader:
                pass
        except echobuf.UpstreamError:
            pass
        loader.close()
        del items, loader
    assert [sys.getrefcount(each) for each in watched] == before


# ---- life


@pytest.mark.parametrize("factor", [1, 2, "auto"])
def test_a_loader_dropped_over_an_endless_iterator_in_c(factor):
    for _ in range(5):
        kwargs = {**KWARGS, "factor": factor}
        loader = echobuf.EchoLoader(itertools.repeat(example(3)), **kwargs)
        epoch = iter(loader)
        assert rows_of(next(epoch)) == [3] * 4
        del loader, epoch


def test_several_loaders_at_once():
    def consume(kind):
        loader = echobuf.EchoLoader(kind(items_of([True] * 1000)), **KWARGS)
        return sorted(i for batch in loader for i in rows_of(batch))

    workers = [Worker(consume, kind) for kind in (Tape, StatelessTape, Tape)]
    for worker in workers:
        assert worker.result() == [i for i in range(1000) for _ in range(2)]


def test_epochs_that_are_set_in_the_middle():
    make = recorded(items_of([True] * 60), StatelessTape)
    loader = make().loader
    whole = {}
    for epoch in (0, 1, 5):
        loader.set_epoch(epoch)
        whole[epoch] = [rows_of(batch) for batch in loader]
    for epoch in (5, 0, 1):
        loader.set_epoch(9)
        next(iter(loader))
        loader.set_epoch(epoch)
        assert [rows_of(batch) for batch in loader] == whole[epoch]
    loader.close()


def test_a_run_shares_the_gil():
    """A thread of Python's gets its turns beside an iterator that never gives any."""
    count = 1_000_000
    # Measured: a fourth of `count` and more; kept out, a twentieth at most, each time.
    assert any(steps_beside_a_run(count) > count // 14 for _ in range(5))


def steps_beside_a_run(count):
    """Return how far this thread counts while another one puts `count` items."""
    item = {"a": np.zeros(16, "u1"), "b": 1}
    with LoaderBuffer(item, batch_size=8, window=count, factor=1) as buffer:
        begun = threading.Event()

        def run():
            begun.set()
            items = itertools.repeat(item)
            return buffer.put_all(False, buffer.term(), items, count)

        worker = Worker(run)
        assert begun.wait(WAIT_S)
        steps = 0
        while worker.is_alive():
            steps += 1
        assert worker.result() == (count, False, None, None)
    return steps
