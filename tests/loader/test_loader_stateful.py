"""Upstreams that keep a state: resume goes on there, and reads nothing it need not."""

import json
import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf.loader.loader import internals_of
from echobuf.loader.states import Snapshots, Stateful
from helpers import until
from opened_states import opened
from test_loader import KWARGS

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]


class Tape:
    """Examples with a state, which `state_dict` gives as it lives; counts its reads."""

    def __init__(self, n, size=None):
        self.n = n
        self.size = size
        self.read = []
        self.states = 0
        self._live = {"at": 0}
        self.begin = 0

    def __iter__(self):
        self._live["at"], self.begin = self.begin, 0
        while self._live["at"] < self.n:
            first = self._live["at"]
            numbers = range(first, min(first + (self.size or 1), self.n))
            self.read += numbers
            self._live["at"] = numbers.stop
            item = self.item(numbers)
            yield item if self.size else {name: x[0] for name, x in item.items()}

    def item(self, numbers):
        return {"id": np.array(numbers), "x": np.zeros((len(numbers), 2))}

    def state_dict(self):
        self.states += 1
        return self._live

    def load_state_dict(self, state):
        self.begin = state["at"]


KINDS = {
    "examples": (None, {}),
    "batches": (5, {"batched": True}),
    "large batches": (23, {"batched": True}),
    "whole": (5, {"unit": "batch", "batch_size": None, "window": 4}),
}


def make(tape, kind="examples", **kwargs):
    return echobuf.EchoLoader(tape, **{**KWARGS, **KINDS[kind][1], **kwargs})


def ids(loader):
    return [batch["id"].tolist() for batch in loader]


def walk(loader, epochs):
    """Return the batches, and the state before, between and after them."""
    served, saved = [], [loader.state_dict()]
    for _ in range(epochs):
        for batch in loader:
            served += ids([batch])
            saved.append(json.loads(json.dumps(loader.state_dict())))
    return served, saved


def stopped(loader, after):
    """The state after so many batches; these; and what is served then."""
    epoch = iter(loader)
    got = [next(epoch)["id"].tolist() for _ in range(after)]
    return json.loads(json.dumps(loader.state_dict())), got, ids(epoch)


# ---- exactly, and no more than it must


@pytest.mark.parametrize(("factor", "prefetch"), [(1, 2), (2, 0), (2.5, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_at_any_boundary_goes_on_exactly(kind, factor, prefetch):
    size, _ = KINDS[kind]
    kwargs = {"factor": factor, "prefetch": prefetch}
    served, saved = walk(make(Tape(115, size), kind, **kwargs), 2)
    for cut in [*range(0, len(saved), 11), len(saved) - 1]:
        state = saved[cut]
        tape = Tape(115, size)
        resumed = make(tape, kind, **kwargs)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        rest = []
        if state["epoch"] < 2:
            rest = ids(resumed)
            check_reads(tape, state, size, kind)
        while resumed.state_dict()["epoch"] < 2:
            tape.read.clear()
            rest += ids(resumed)
            assert tape.read == list(range(115))
        assert rest == served[cut:]


def check_reads(tape, state, size, kind):
    """Read is what is needed, from the beginning of an item on."""
    offset = state["fresh_offset"] * (size if kind == "whole" else 1)
    begin = offset // (size or 1) * (size or 1)
    assert tape.read == list(range(begin, tape.n))


@settings(max_examples=40)
@given(st.data())
def test_random_loaders_go_on_exactly(data):
    n, window = data.draw(st.integers(1, 200)), data.draw(st.integers(6, 40))
    factor = data.draw(st.sampled_from([1, 2, 3, 2.5, 1.3]))
    size = data.draw(st.integers(1, 30))
    kwargs = {"window": window, "factor": factor, "batch_size": 3}
    kwargs["prefetch"] = data.draw(st.integers(0, 3))
    served, saved = walk(make(Tape(n, size), "batches", **kwargs), 1)
    state = saved[data.draw(st.integers(0, len(saved) - 1))]
    tape = Tape(n, size)
    resumed = make(tape, "batches", **kwargs)
    resumed.load_state_dict(state)
    if state["epoch"] == 0:
        rest = ids(resumed)
        assert rest == served[len(served) - len(rest) :]
        check_reads(tape, state, size, "batches")


def test_with_auto_nothing_is_lost_and_nothing_read_again():
    state, got, _ = stopped(make(Tape(400), factor="auto", window=32), 90)
    again = Tape(400)
    resumed = make(again, factor="auto", window=32)
    resumed.load_state_dict(state)
    rest = ids(resumed)
    assert again.read == list(range(state["fresh_offset"], 400))
    assert {i for batch in got + rest for i in batch} == set(range(400))


def without_length(state):
    """A state without upstream's length, which may be known since it was taken."""
    position = {**opened(state)["position"], "upstream_length": None}
    return {**opened(state), "position": position, "checksum": None}


def test_a_resume_of_a_resume():
    served, _ = walk(make(Tape(200)), 1)
    got = []
    state = None
    for _ in range(9):
        tape = Tape(200)
        loader = make(tape)
        if state is not None:
            loader.load_state_dict(state)
            assert loader.state_dict() == state
            iter(loader)
            assert without_length(loader.state_dict()) == without_length(state)
        state, more, _ = stopped(loader, 11)
        got += more
        assert tape.read[0] <= state["fresh_offset"]
    assert got == served[:99]


def test_overlapping_epochs():
    served, saved = walk(make(Tape(90), overlap_epochs=True), 3)
    assert len(served) == 3 * 45
    for cut in range(1, 130, 13):
        state = saved[cut]
        tape = Tape(90)
        resumed = make(tape, overlap_epochs=True)
        resumed.load_state_dict(state)
        rest = ids(resumed)
        while resumed.state_dict()["epoch"] < 3:
            rest += ids(resumed)
        assert rest == served[cut:]
        expected = [*range(state["fresh_offset"], 90), *3 * list(range(90))]
        assert tape.read == expected[: len(tape.read)]


def test_an_epoch_begun_and_dropped_is_loaded_again():
    state, _, expected = stopped(make(Tape(200)), 60)
    tape = Tape(200)
    loader = make(tape)
    loader.load_state_dict(state)
    iter(loader)
    loader.set_epoch(0)
    assert ids(loader) == expected
    assert tape.read[0] == state["fresh_offset"]


def test_a_state_given_up_by_set_epoch_is_not_loaded():
    state, _, _ = stopped(make(Tape(200)), 60)
    tape = Tape(200)
    loader = make(tape)
    loader.load_state_dict(state)
    loader.set_epoch(3)
    assert not loader.state_dict()["upstream"]
    list(loader)
    assert tape.read == list(range(200))


def test_a_loader_around_a_loader():
    """Its states are states of upstream, too."""

    def nested(tape):
        inner = make(tape, factor=2)
        return make(inner, "batches", factor=2, batch_size=8)

    whole = nested(Tape(300))
    expected = [ids(whole) for _ in range(2)]
    state, got, _ = stopped(nested(Tape(300)), 120)
    tape = Tape(300)
    resumed = nested(tape)
    resumed.load_state_dict(state)
    assert got + ids(resumed) == expected[0]
    assert tape.read[0] > 150
    assert ids(resumed) == expected[1]


# ---- memory, threads


@pytest.mark.parametrize("factor", [1, 2, 8, "auto"])
def test_few_states_are_taken_and_fewer_kept(factor):
    tape = Tape(4000)
    loader = make(tape, window=256, factor=factor)
    most = 0
    for _ in loader:
        most = max(most, len(internals_of(loader).starter.positions.kept))
    segments = 16 if factor == "auto" else factor
    assert most <= 6 * segments + 2
    assert tape.states <= 4000 / 256 * segments + 2


def test_what_upstream_holds_goes_with_its_epoch():
    loader = make(Tape(50))
    list(loader)
    assert len(internals_of(loader).starter.positions.kept) <= 16


class Plain:
    """Knows of no thread."""

    def __init__(self):
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        pass


def test_states_are_looked_up_while_others_are_taken():
    loader = make(Tape(1), window=64, factor=4)
    upstream = Plain()
    options = internals_of(loader).plan.options
    snapshots = Snapshots(Stateful(upstream), options, 0, 0, 0, None)
    done, wrong = threading.Event(), []

    def look():
        while not done.is_set():
            found = found_at(snapshots, lambda: max(upstream.at // 16 * 16 - 128, 0))
            if found and found.encoded["state"]["at"] != found.offset:
                wrong.append(found)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30_000):
        upstream.at += 1
        snapshots.passed(1)
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert found_at(snapshots, lambda: 30_000 - 70).offset == 29_920


def found_at(snapshots, locate):
    """The state for the fresh example that `locate` says."""
    return snapshots.at(lambda: {"epoch": 0, "fresh_offset": locate()}).get("upstream")


@pytest.mark.parametrize("later", [40, 60, 5000])
def test_upstream_goes_on_while_a_position_is_found(later):
    """The states around a position come and go while it is found."""
    loader = make(Tape(1), window=64, factor=4)  # a state for every 16 examples
    upstream = Plain()
    options = internals_of(loader).plan.options
    snapshots = Snapshots(Stateful(upstream), options, 0, 0, 0, None)

    def go_on(count):
        for _ in range(count):
            upstream.at += 1
            snapshots.passed(1)

    def locate():
        go_on(60)
        at = upstream.at - 20
        go_on(later)
        return at

    go_on(1000)
    found = found_at(snapshots, locate)
    assert found.offset == (1040 if later < 5000 else 992) // 16 * 16


def test_states_taken_while_upstream_runs():
    tape = Tape(1000)
    loader = make(tape, window=64, prefetch=2)
    epoch = iter(loader)
    stop = threading.Event()
    states = []

    def take():
        while not stop.is_set():
            states.append(loader.state_dict())

    next(epoch)
    thread = threading.Thread(target=take)
    thread.start()
    served = Counter()
    for number, batch in enumerate(epoch):
        served.update(batch["id"].tolist())
        if 20 <= number < 40:  # the second segment begins: one is taken there, wholly
            taken = len(states)
            until(lambda taken=taken: len(states) > taken + 1)
    stop.set()
    thread.join()
    assert len(served) == 1000
    exact = 0
    for state in states:
        if state["epoch"] == 0 and state["fresh_offset"]:
            offset = opened(state)["upstream"]["offset"]
            assert opened(state)["upstream"]["state"]["state"]["at"] == offset
            # Else the thread stood still while all that the ring holds went by.
            assert offset <= state["fresh_offset"]
            exact += offset == state["fresh_offset"]
    assert exact


class Reel(Tape):
    """Keeps its state in its iterator, as some streams do; this one asks that."""

    _items = None
    _loaded = None

    def __iter__(self):
        self._items, self._loaded = iter(ReelIterator(self, self._loaded or 0)), None
        return self._items

    def state_dict(self):
        return {"at": 0 if self._items is None else self._items.at}

    def load_state_dict(self, state):
        self._loaded = state["at"]


class ReelIterator:
    def __init__(self, reel, at):
        self.reel, self.at = reel, at

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == self.reel.n:
            raise StopIteration
        self.at += 1
        self.reel.read.append(self.at - 1)
        return {"id": self.at - 1, "x": np.zeros(2)}


@pytest.mark.parametrize("kind", [Tape, Reel])
def test_a_state_of_the_data_or_of_its_iterator_is_used(kind):
    state, _, expected = stopped(make(kind(200)), 60)
    data = kind(200)
    resumed = make(data)
    resumed.load_state_dict(state)
    assert ids(resumed) == expected
    assert data.read == list(range(state["fresh_offset"], 200))
