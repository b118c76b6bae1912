"""States of `EchoLoader`: at any boundary, and what does not fit is refused."""

import json

import numpy as np
import pytest

import echobuf
from echobuf.loader.loader import internals_of
from test_loader import KWARGS, Numbers
from test_loader_epochs import ids, make

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]


BATCHES = [{"id": np.arange(start, start + 5)} for start in range(0, 40, 5)]
UPSTREAMS = {
    "examples": (lambda: Numbers(40), {**KWARGS}),
    "batches": (lambda: BATCHES, {**KWARGS, "batched": True}),
    "batch size from the first": (
        lambda: BATCHES,
        {"window": 16, "factor": 2, "batched": True},
    ),
    "whole": (lambda: BATCHES, {"window": 3, "factor": 2, "unit": "batch"}),
}


def walk(upstream, kwargs):
    """Two epochs: the batches, and the state before, between and after them."""
    loader = echobuf.EchoLoader(upstream, **kwargs)
    saved = [loader.state_dict()]
    served = []
    for number in range(2):
        epoch = iter(loader)
        assert loader.state_dict()["epoch"] == number
        for batch in epoch:
            served += ids([batch])
            saved.append(json.loads(json.dumps(loader.state_dict())))
        assert loader.state_dict() == saved[-1]
    return served, saved


@pytest.mark.parametrize(("factor", "prefetch"), [(1, 2), (2, 0), (2.5, 2)])
@pytest.mark.parametrize("kind", UPSTREAMS)
def test_a_state_at_any_boundary_goes_on_exactly(kind, factor, prefetch):
    make_upstream, kwargs = UPSTREAMS[kind]
    kwargs = {**kwargs, "factor": factor, "prefetch": prefetch}
    served, saved = walk(make_upstream(), kwargs)
    for cut in [*range(0, len(saved), 7), len(saved) // 2, len(saved) - 1]:
        resumed = echobuf.EchoLoader(make_upstream(), **kwargs)
        resumed.load_state_dict(saved[cut])
        rest = []
        for _ in range(saved[cut]["epoch"], 2):
            rest += ids(resumed)
        assert rest == served[cut:]
        assert resumed.state_dict()["epoch"] == 2


def test_a_loader_takes_a_state_in_the_middle_of_an_epoch():
    loader, whole = make(), make()
    expected = ids(whole)
    epoch = iter(loader)
    got = ids(next(epoch) for _ in range(7))
    state = loader.state_dict()
    next(epoch)
    loader.load_state_dict(state)
    with pytest.raises(echobuf.ClosedError):
        next(epoch)
    assert got + ids(loader) == expected


def test_a_state_taken_after_the_loop_was_left_is_that_of_the_last_batch():
    loader, whole = make(), make()
    expected = ids(whole)
    got = [ids([batch])[0] for _, batch in zip(range(7), loader, strict=False)]
    # `zip` takes no batch more than it gives: the range ends first.
    assert got == expected[:7]
    state = loader.state_dict()
    again = make()
    again.load_state_dict(state)
    assert ids(again) == expected[7:]


@pytest.mark.parametrize("factor", [2, "auto"])
def test_a_state_that_was_loaded_is_the_state(factor):
    # More examples than the ring holds: upstream's end, which a state names once it is
    # known, is not seen before the first batch.
    loader = make(400, factor=factor)
    epoch = iter(loader)
    for _ in range(5):
        next(epoch)
    state = loader.state_dict()
    again = make(400, factor=factor)
    again.load_state_dict(state)
    assert again.state_dict() == state
    epoch = iter(again)
    assert again.state_dict() == state
    assert next(epoch)["id"].shape == (4,)


def test_set_epoch_keeps_a_state_of_that_epoch_and_gives_up_another():
    expected = ids(make())
    loader = make()
    got = [ids([batch])[0] for _, batch in zip(range(7), loader, strict=False)]
    state = loader.state_dict()
    again = make()
    again.load_state_dict(state)
    again.set_epoch(0)
    assert got + ids(again) == expected
    again.load_state_dict(state)
    again.set_epoch(1)
    again.set_epoch(0)
    assert ids(again) == expected


def test_a_failure_before_the_first_batch_leaves_the_state_as_it_was():
    loader = make()
    epoch = iter(loader)
    for _ in range(5):
        next(epoch)
    for state in (make().state_dict(), loader.state_dict()):
        again = make()
        again.load_state_dict(state)
        internals_of(again).upstream.fail_at = 0
        with pytest.raises(echobuf.UpstreamError):
            list(again)
        kept = again.state_dict()
        assert kept["epoch"] == state["epoch"]
        assert kept["position"] == state["position"]


def state_of(items, **kwargs):
    loader = echobuf.EchoLoader(items, **{**KWARGS, **kwargs})
    for _ in zip(range(5), loader, strict=False):
        pass
    return loader.state_dict()


@pytest.mark.parametrize(
    ("items", "kwargs", "name"),
    [
        ([np.zeros(3)] * 40, {}, "`spec`"),
        ([np.zeros(2, "f4")] * 40, {}, "`spec`"),
        ([[np.zeros(2)]] * 40, {}, "`spec`"),
        ([np.zeros(2)] * 40, {"batch_size": 5}, "`batch_size`"),
        ([np.zeros(2)] * 40, {"window": 17}, "`window`"),
        ([np.zeros(2)] * 40, {"seed": 1}, "`seed`"),
        ([np.zeros(2)] * 40, {"factor": 3}, "`factor`"),
        ([np.zeros((5, 2))] * 8, {"batched": True, "batch_size": None}, "`batch_size`"),
        ([np.zeros((5, 2))] * 8, {"unit": "batch", "batch_size": None}, "`"),
    ],
)
def test_a_state_of_another_loader_is_refused_before_the_first_batch(
    items, kwargs, name
):
    state = state_of([np.zeros(2)] * 40)

    def use():
        loader = echobuf.EchoLoader(items, **{**KWARGS, **kwargs})
        loader.load_state_dict(state)
        next(iter(loader))

    with pytest.raises(echobuf.StateError, match=name):
        use()


@pytest.mark.parametrize("n", [0, 1, 10])
def test_an_upstream_shorter_than_it_was_is_refused(n):
    state = state_of([np.zeros(2)] * 40, factor=1)
    loader = echobuf.EchoLoader([np.zeros(2)] * n, **{**KWARGS, "factor": 1})
    loader.load_state_dict(state)
    with pytest.raises(echobuf.StateError, match="`state`"):
        list(loader)


@pytest.mark.parametrize("state", [None, {}, {"format": "echobuf-state"}, 7])
def test_what_is_no_state_is_refused(state):
    loader = make()
    with pytest.raises(echobuf.StateError, match="`state`"):
        loader.load_state_dict(state)
    assert ids(loader) == ids(make())


def test_stats_are_those_of_the_epoch():
    loader = make(n=10)
    assert loader.stats().fresh == loader.stats().served == 0
    for _ in range(2):
        assert sum(len(batch["id"]) for batch in loader) == 20
        stats = loader.stats()
        assert (stats.fresh, stats.served, stats.effective_factor) == (10, 20, 2)
