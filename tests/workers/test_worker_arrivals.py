"""With `in_order=False` examples of workers enter the window as they arrive."""

import itertools
import os
import random
import signal
from collections import Counter

import pytest

import echobuf
import worker_data
from arrival_data import (
    Arrivals,
    Tailed,
    TailedTexts,
    flat,
    reload,
    used_exactly,
)
from opened_states import opened, resealed
from ragged_worker_data import KWARGS as RAGGED
from ragged_worker_data import texts
from worker_data import Numbers, Troubled, UntilThere, ids, load, workers_alive

N = 150


def arriving(dataset, workers=2, **kwargs):
    return load(dataset, workers, in_order=False, **kwargs)


def test_an_example_that_takes_long_holds_up_no_other(tmp_path):
    go_on = tmp_path / "go on"
    loader = arriving(Troubled(N, UntilThere(go_on), 12), factor=1)
    epoch = iter(loader)
    # What a pass serves has entered: all but the last window must be able to.
    early = [next(epoch) for _ in range((N - 20) // 4)]
    assert 12 not in flat(ids(early))
    go_on.touch()
    used_exactly(ids([*early, *epoch]), N, 1)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"overlap_epochs": True, "prefetch": 2},
        {"factor": 1.5, "multiprocessing_context": "forkserver"},
        {"factor": "auto", "max_factor": 3, "drop_last": True},
    ],
)
def test_every_example_is_used_as_often_as_the_factor_says(kwargs):
    loader = arriving(Tailed(N), 3, **kwargs)
    least, most = {1.5: (1, 2), "auto": (1, 3)}.get(kwargs.get("factor"), (2, 2))
    for _ in range(2):
        uses = Counter(flat(ids(loader)))
        if "drop_last" not in kwargs:
            assert set(uses) == set(range(N))
        assert least <= min(uses.values()) <= max(uses.values()) <= most
        if most == 2 and least == 1:
            assert abs(sum(uses.values()) - 1.5 * N) <= 8


def test_batches_follow_from_the_order_of_arrival():
    kwargs = {"window": 40, "batch_size": 5}
    loader = arriving(Tailed(N), **kwargs)
    arrivals, batches = Arrivals(), []
    for batch in loader:
        batches.append(batch)
        arrivals.note(loader)
    assert sorted(arrivals.items) == list(range(N))
    assert arrivals.items != list(range(N))
    assert ids(batches) == arrivals.certain(N, kwargs)


def test_a_resumed_epoch_goes_on_exactly_with_what_had_entered():
    """Twice, each time with another number of workers."""
    arrivals = Arrivals()
    loader = arriving(Tailed(N))
    batches, certain = [], []
    for workers in (1, 3):
        drawn, state = arrivals.draw(loader, iter(loader), 14)
        batches += drawn
        served = ids(batches)
        assert served[: len(certain)] == certain[: len(served)]
        certain = arrivals.certain(N, {})
        assert len(certain) > len(served)
        assert certain[: len(served)] == served
        # Left in the middle: what had entered then comes again, what had not comes.
        loader = arriving(Tailed(N), workers)
        loader.load_state_dict(state)
        assert reload(loader.state_dict()) == state
    rest = ids(loader)
    assert rest[: len(certain) - len(served)] == certain[len(served) :]
    used_exactly([*served, *rest], N, 2)
    used_exactly(ids(loader), N, 2)  # the next epoch begins with nothing


def test_a_loader_in_order_goes_on_in_the_order_of_the_sampler():
    arrivals = Arrivals()
    loader = arriving(Tailed(N))
    batches, state = arrivals.draw(loader, iter(loader), 14)
    left = sorted(set(range(N)) - set(arrivals.items))
    for drawn in (2, None):  # and again, before all that had entered has come
        loader = load(Tailed(N), 1)
        loader.load_state_dict(state)
        epoch = iter(loader)
        batches += itertools.islice(epoch, drawn)
        if drawn is not None:
            state = reload(loader.state_dict())
    assert ids(batches) == ids(load(Numbers(N), 0, sampler=[*arrivals.items, *left]))


def test_each_state_of_an_epoch_that_goes_on_in_order_is_sound():
    """Its window may hold what had entered out of order, and what came behind."""
    loader = arriving(Tailed(N))
    _, state = Arrivals().draw(loader, iter(loader), 14)
    loader = load(Tailed(N), 1)
    loader.load_state_dict(state)
    kinds = []
    for _ in loader:
        state = reload(loader.state_dict())
        kinds.append(bool(state["entered"]))
        arriving(Tailed(N)).load_state_dict(state)
    assert kinds[0]
    assert not kinds[-1]


def test_a_state_of_an_epoch_in_order_goes_on():
    loader = load(Tailed(N), 2)
    epoch = iter(loader)
    before = [next(epoch) for _ in range(32)]
    state = reload(loader.state_dict())
    other = arriving(Tailed(N))
    other.load_state_dict(state)
    resumed, rest = ids(other), ids(epoch)
    assert resumed[:4] == rest[:4]  # a pass
    used_exactly([*ids(before), *resumed], N, 2)


def left_in_pass(state):
    """Return how many draws are left of a pass, all of whose records have entered."""
    at = opened(state)["position"]
    return at["resident_end"] - state["fresh_offset"] - at["offset"]


@pytest.mark.parametrize(
    "kwargs", [{}, {"factor": 1, "batch_size": None, "max_rows": 200}]
)
def test_examples_that_differ_in_length_enter_as_they_arrive(kwargs):
    kwargs = {**RAGGED, **kwargs}
    factor = kwargs["factor"]
    loader = arriving(TailedTexts(N), **kwargs)
    arrivals, served = Arrivals(), []
    epoch = iter(loader)
    left = 0
    while len(served) < 15 or left < 4:
        served += texts([next(epoch)])
        state = arrivals.note(loader)
        left = left_in_pass(state)
    assert arrivals.items != sorted(arrivals.items)
    count = len(flat(served))
    rest = flat(texts(epoch))
    other = arriving(TailedTexts(N), 3, **kwargs)
    other.load_state_dict(state)
    resumed = flat(texts(other))
    assert resumed[:left] == rest[:left]
    for each in (rest, resumed):
        assert len(each) == factor * N - count
        used_exactly([flat(served), each], N, factor)


def test_killed_workers_lose_nothing():
    dice = random.Random(3)
    loader = arriving(Tailed(N), max_restarts=100)
    served, killed = [], 0
    for number, batch in enumerate(loader):
        served.append(batch)
        if number % 15 == 5 and (alive := workers_alive()):
            os.kill(dice.choice(alive).pid, signal.SIGKILL)
            killed += 1
    assert killed > 2
    used_exactly(ids(served), N, 2)


def test_an_error_reaches_the_loop_and_the_next_epoch_works(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    loader = arriving(Troubled(N, worker_data.raise_value, 50, flag))
    with pytest.raises(echobuf.UpstreamError, match="no such example"):
        ids(loader)
    epoch = iter(loader)
    next(epoch)
    del epoch  # left half-way
    flag.unlink()
    used_exactly(ids(loader), N, 2)


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"workers": 0}, "`in_order` is False and `num_workers` is 0"),
        ({"in_order": None}, "`in_order` is None; it must be True or False"),
        ({"in_order": 0}, "`in_order` is 0; it must be True or False"),
    ],
)
def test_arguments_that_are_refused(kwargs, said):
    with pytest.raises(echobuf.OptionError, match=said):
        load(Numbers(20), **{"workers": 2, "in_order": False, **kwargs})


@pytest.fixture(scope="module")
def midway():
    """Return a state in the middle of an epoch."""
    with arriving(Tailed(N)) as loader:
        epoch = iter(loader)
        for _ in range(20):
            next(epoch)
        return reload(loader.state_dict())


def damaged(state, **changes):
    body = opened(state)
    return resealed({**body, "entered": {**body["entered"], **changes}})


@pytest.mark.parametrize(
    "change",
    [
        lambda entered: {"limit": entered["limit"] + 1},
        lambda entered: {"limit": str(entered["limit"])},
        lambda entered: {"missing": entered["order"]},
        lambda entered: {"order": entered["missing"]},
        lambda entered: {"order": entered["order"][:-8]},
        lambda entered: {"order": "?"},
        lambda entered: {"order": None},
    ],
)
def test_a_damaged_state_is_refused(midway, change):
    loader = arriving(Numbers(N))
    loader.load_state_dict(damaged(midway))  # but for what is changed it is sound
    with pytest.raises(echobuf.StateError, match=r'`state\["entered"\]` is damaged'):
        loader.load_state_dict(damaged(midway, **change(opened(midway)["entered"])))


def test_where_a_state_cannot_go_on_is_said(midway):
    with pytest.raises(echobuf.StateError, match="give `num_workers`, at least 1"):
        load(Numbers(N), 0).load_state_dict(midway)
    buffer = echobuf.EchoBuffer(Numbers(1)[0], **worker_data.KWARGS)
    with pytest.raises(echobuf.StateError, match="workers and in_order=False"):
        buffer.load_state_dict(midway)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_sampler_that_yields_fewer_items_than_had_entered(midway, in_order):
    loader = load(Numbers(N), 1, sampler=range(20), in_order=in_order)
    loader.load_state_dict(midway)
    with pytest.raises(echobuf.StateError, match="upstream yields 20 items"):
        ids(loader)
