"""Upstreams without a state that a loader can keep; states that it does not take."""

import threading

import numpy as np
import pytest

import echobuf
from echobuf.loader.states import as_stateful
from opened_states import opened
from test_loader import KWARGS, Numbers
from test_loader_stateful import Tape, ids, make, stopped

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]

# ---- who has a state


def test_others_are_as_they_were():
    state, _, _ = stopped(echobuf.EchoLoader(Numbers(99), **KWARGS), 30)
    assert not state["upstream"]
    assert as_stateful([1]) is None


def test_what_has_these_methods_for_weights_is_no_such_upstream():
    torch = pytest.importorskip("torch")
    assert as_stateful(torch.nn.Sequential()) is None
    assert as_stateful(torch.utils.data.DataLoader(Tape(3), batch_size=None)) is None


def test_methods_of_other_libraries_are_no_state():
    class Streaming:
        """As MosaicML's: its state is of a number of samples."""

        def __iter__(self):
            return iter([{"x": np.int64(i)} for i in range(8)])

        def state_dict(self, num_samples, from_beginning):
            raise AssertionError

        def load_state_dict(self, state):
            raise AssertionError

    loader = echobuf.EchoLoader(Streaming(), batch_size=2, window=4, factor=1)
    assert len(list(loader)) == 4
    assert not loader.state_dict()["upstream"]


class Same(Tape):
    def state_dict(self):
        return {"weights": [1.0]}


class Odd(Tape):
    def state_dict(self):
        return {"at": threading.Lock()}


class Failing(Tape):
    def state_dict(self):
        raise ValueError("no state today")


@pytest.mark.parametrize(
    ("kind", "why"),
    [(Same, "is the same after"), (Odd, r"\['at'\]` is of type"), (Failing, "today")],
)
def test_a_state_that_cannot_be_kept_is_left_out_with_a_warning(kind, why):
    loader = make(kind(200))
    epoch = iter(loader)
    for _ in range(40):
        next(epoch)
    with pytest.warns(UserWarning, match=why) as seen:
        state = loader.state_dict()
    assert seen[0].filename == __file__
    assert not state["upstream"]
    assert loader.state_dict() == state  # told once
    expected = ids(epoch)
    resumed = make(Tape(200))
    resumed.load_state_dict(state)
    assert ids(resumed) == expected


# ---- bad states


def upstream_state():
    state, _, _ = stopped(make(Tape(200)), 60)
    state = opened(state)
    assert 0 < state["upstream"]["offset"] <= state["fresh_offset"]
    return state


def test_a_loader_or_buffer_without_such_an_upstream_refuses_it():
    state = upstream_state()
    with pytest.raises(echobuf.StateError, match=r"here it is a Numbers.*this key out"):
        echobuf.EchoLoader(Numbers(200), **KWARGS).load_state_dict(state)
    spec = {"id": echobuf.Field((), "i8"), "x": echobuf.Field((2,), "f8")}
    with (
        echobuf.EchoBuffer(spec, **KWARGS) as buffer,
        pytest.raises(echobuf.StateError, match=r"upstream keeps a state.*out"),
    ):
        buffer.load_state_dict(state)


def test_it_may_be_left_out():
    state, _, expected = stopped(make(Tape(200)), 60)
    del state["upstream"]
    for upstream in (Tape(200), [*Tape(200)]):
        resumed = make(upstream)
        resumed.load_state_dict(state)
        assert ids(resumed) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("offset", 0),
        ("offset", -1),
        ("offset", "1"),
        ("offset", 10**6),
        ("state", {"state": {"at": 7}}),
        ("place", [0, 2]),
        ("place", 3),
        ("checksum", 0),
        (None, []),
        (None, {}),
        (None, 5),
        (None, None),
    ],
)
def test_a_damaged_state_is_refused(key, value):
    state = upstream_state()
    if key is None:
        state["upstream"] = value
    else:
        state["upstream"][key] = value
    loader = make(Tape(200))
    with pytest.raises(echobuf.StateError, match="is damaged"):
        loader.load_state_dict(state)
    assert len(ids(loader)) == 100


class Choosy(Tape):
    where = "load"

    def load_state_dict(self, state):
        if self.where == "load":
            raise KeyError("at")
        super().load_state_dict(state)

    def __iter__(self):
        if self.where == "iter" and self.begin:
            raise KeyError("at")
        return super().__iter__()


@pytest.mark.parametrize("where", ["load", "iter"])
def test_an_upstream_that_does_not_take_its_state(where):
    state = upstream_state()
    tape = Choosy(200)
    tape.where = where
    loader = make(tape)
    loader.load_state_dict(state)
    for error in (echobuf.StateError, echobuf.UpstreamError):
        with pytest.raises(error, match=r"a Choosy, does not go on.*KeyError") as seen:
            iter(loader)
        assert isinstance(seen.value.__cause__, KeyError)
    assert opened(loader.state_dict()) == state
    del state["upstream"]
    tape.begin = 0
    loader.load_state_dict(state)
    ids(loader)
    assert tape.read == list(range(200))


def test_an_upstream_with_nothing_left_begins_anew():
    """At the end of an epoch whose end nobody had seen."""
    state = upstream_state()
    tape = Tape(opened(state)["upstream"]["offset"])
    loader = make(tape)
    loader.load_state_dict(state)
    with pytest.raises(echobuf.StateError, match="`state`"):
        list(loader)
    assert tape.read == list(range(tape.n))


def test_a_state_of_another_rank_is_left_out(monkeypatch):
    state, _, expected = stopped(make(Tape(200)), 60)
    monkeypatch.setattr("echobuf.loader.upstream.place", lambda: (1, 2))
    tape = Tape(200)
    loader = make(tape)
    with pytest.warns(UserWarning, match="on rank 0 of 1") as seen:
        loader.load_state_dict(state)
    assert seen[0].filename == __file__
    assert ids(loader) == expected
    assert tape.read == list(range(200))
