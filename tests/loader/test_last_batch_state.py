"""A state taken at the last batch is the start of the next epoch, at any time."""

import json
import threading

import pytest

import echobuf
from echobuf.loader import states

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]

N, SIZE = 40, 10


class Late:
    """Ends once it is let go; `sized` and `stateful` as real ones may be."""

    def __init__(self, *, is_late):
        self.let_go = threading.Event()
        if not is_late:
            self.let_go.set()
        self.at = self.begin = 0
        self.calls = 0

    def __iter__(self):
        self.calls += 1
        self.at, self.begin = self.begin, 0
        while self.at < N:
            self.at += 1
            yield self.at - 1
        self.let_go.wait()
        self.at = 0


class Sized(Late):
    def __len__(self):
        return N


class Stateful(Sized):
    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.begin = state["at"]


def make(upstream, **kwargs):
    return echobuf.EchoLoader(
        upstream, **{"batch_size": SIZE, "window": 2 * SIZE, "factor": 1, **kwargs}
    )


def take(loader, when):
    """The state at the last batch of an epoch: in the loop, or after it was left."""
    for number, _ in enumerate(loader):
        if number == N // SIZE - 1 and when != "after":
            if when == "in":
                return loader.state_dict()
            break
    return loader.state_dict()


def rest(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("when", ["in", "after", "break"])
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("kind", [Late, Sized, Stateful])
def test_the_next_epoch_comes_after_the_last_batch(kind, is_late, when):
    if when == "break" and kind is not Sized:
        pytest.skip("nothing says that this batch was the last")
    upstream = kind(is_late=is_late)
    loader = make(upstream)
    timer = threading.Timer(0.1, upstream.let_go.set)
    timer.start()
    state = json.loads(json.dumps(take(loader, when)))
    upstream.let_go.set()
    timer.join()
    assert (state["epoch"], state["fresh_offset"]) == (1, 0)
    wanted = make(kind(is_late=False))
    wanted.set_epoch(1)
    resumed = make(kind(is_late=False))
    resumed.load_state_dict(state)
    assert rest(resumed) == rest(wanted)
    loader.close()


@pytest.mark.parametrize("kind", [Late, Sized])
def test_an_upstream_that_does_not_end_is_not_waited_for(kind, monkeypatch):
    monkeypatch.setattr(states, "_PATIENCE_S", 0.01)
    upstream = kind(is_late=True)
    loader = make(upstream)
    state = take(loader, "in")
    known = kind is Sized
    assert (state["epoch"], state["fresh_offset"]) == ((1, 0) if known else (0, N))
    upstream.let_go.set()
    resumed = make(kind(is_late=False))
    resumed.load_state_dict(state)
    assert len(rest(resumed)) == (N // SIZE if known else 0)
    loader.close()


def test_upstream_is_not_waited_for_in_the_middle_of_an_epoch():
    class Halting(Sized):
        def __iter__(self):
            yield from range(2 * SIZE)
            self.let_go.wait()
            yield from range(2 * SIZE, N)

    upstream = Halting(is_late=True)
    batches = iter(loader := make(upstream))
    for offset in (0, 2 * SIZE):
        next(batches)
        assert loader.state_dict()["fresh_offset"] == offset
    assert not upstream.let_go.is_set()
    upstream.let_go.set()
    loader.close()


@pytest.mark.parametrize(("window", "size"), [(10, 10), (20, 10), (32, 12)])
def test_a_last_batch_behind_which_some_are_dropped(window, size):
    """However late upstream says that it has no more."""

    def begun():
        upstream = Sized(is_late=True)
        threading.Timer(0.05, upstream.let_go.set).start()
        kwargs = {"window": window, "batch_size": size, "drop_last": True}
        return make(upstream, **kwargs)

    def states(loader):
        return [(loader.state_dict(), batch.tolist()) for batch in loader]

    taken = states(begun())
    assert [state["epoch"] for state, _ in taken] == [0] * (N // size - 1) + [1]
    resumed = begun()
    resumed.load_state_dict(taken[0][0])
    again = states(resumed)
    assert [batch for _, batch in again] == [batch for _, batch in taken[1:]]
    assert again[-1][0]["epoch"] == 1
