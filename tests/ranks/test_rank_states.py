"""States of loaders with `uneven`, on as many ranks and on other numbers of ranks."""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections import Counter

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf.torch import EchoLoader
from helpers import until
from ranks import rank_threads
from ranks.rank_loaders import ids, make, shard
from ranks.rank_threads import RankThreads


@pytest.fixture(autouse=True)
def ranks_are_threads(monkeypatch):
    rank_threads.patch(monkeypatch)


@st.composite
def cut_epochs(draw):
    lengths = draw(st.lists(st.integers(4, 40), min_size=1, max_size=3))
    return lengths, draw(st.floats(0, 1)), draw(st.sampled_from([1, 2, 1.5]))


@settings(max_examples=25)
@given(cut_epochs(), st.sampled_from(["drop", "pad"]), st.booleans(), st.booleans())
def test_as_many_ranks_continue_exactly(cut, uneven, left, shared):
    lengths, at, factor = cut
    threads = RankThreads(len(lengths))
    step = threading.Barrier(len(lengths))

    def upstream(rank):
        return shard(0, 1, lengths[rank])

    def whole(rank):
        loader = make(upstream(rank), uneven, factor=factor)
        taken, states = [], [loader.state_dict()]
        for batch in loader:
            taken.append(batch["id"].tolist())
            step.wait()
            states.append(loader.state_dict())
            step.wait()
        return taken, states, ids(loader)

    runs = threads.run(whole)
    steps = int(at * len(runs[0][0]))

    def resumed(rank):
        loader = make(upstream(rank), uneven, factor=factor)
        state = json.loads(json.dumps(runs[0 if shared else rank][1][steps]))
        loader.load_state_dict(state)
        assert loader.state_dict() == runs[rank][1][steps]
        if left:  # a batch on, and begun again from where that came to
            ids(loader, 1)
            state = loader.state_dict()
            loader = make(upstream(rank), uneven, factor=factor)
            loader.load_state_dict(json.loads(json.dumps(state)))
        first = ids(loader)
        return first, ids(loader), loader.state_dict()["epoch"]

    for rank, (first, second, epoch) in enumerate(
        RankThreads(threads.size).run(resumed)
    ):
        taken, _, following = runs[rank]
        rest = taken[steps + left :] if steps + left <= len(taken) else None
        whole_epoch = steps == len(taken) or (left and steps + 1 == len(taken))
        if not whole_epoch:
            assert (first, second, epoch) == (rest, following, 2)


def test_the_state_after_the_last_batch_is_the_next_epochs():
    def rank_does(rank):
        loader = make(shard(0, 1, [16, 30][rank]), "drop")
        for number, _ in enumerate(loader):
            state = loader.state_dict()
            assert state["epoch"] == (1 if number == 7 else 0)
        return number

    assert RankThreads(2).run(rank_does) == [7, 7]


def test_a_state_taken_after_a_break_continues_exactly():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        first = ids(loader, 3)
        state = loader.state_dict()
        whole = make(shard(0, 1, 40), "drop")
        taken = ids(whole)
        again = make(shard(0, 1, 40), "drop")
        again.load_state_dict(state)
        assert first + ids(again) == taken
        return True

    assert RankThreads(2).run(rank_does) == [True, True]


def test_a_state_before_the_first_batch_is_the_epochs_start():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        kept = iter(loader)
        assert loader.state_dict()["epoch"] == 0
        first = [next(kept)["id"].tolist() for _ in range(3)]
        state = loader.state_dict()
        loader.load_state_dict(state)
        kept = iter(loader)
        assert loader.state_dict() == state, "as it was loaded"
        first += [batch["id"].tolist() for batch in kept]
        kept = iter(loader)
        state = loader.state_dict()
        assert (state["epoch"], state["position"]) == (1, "")
        return first

    assert RankThreads(2).run(rank_does) == [ids(make(shard(0, 1, 40), None))] * 2


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (2, 1), (1, 2), (4, 2)])
@pytest.mark.parametrize("unit", ["example", "batch"])
def test_another_number_of_ranks_loses_no_example(before, after, unit):
    length, size = 240, {"example": 1, "batch": 4}[unit]

    def upstream(rank, ranks):
        examples = shard(rank, ranks, length)
        if unit == "example":
            return examples
        data = torch.stack([one["id"] for one in examples]).split(4)
        return [{"id": one} for one in data]

    def loader(rank, ranks, uneven="drop"):
        more = {"unit": "batch", "batch_size": None, "window": 4}
        return make(upstream(rank, ranks), uneven, **(more if unit == "batch" else {}))

    def begins(rank):
        saver = loader(rank, before)
        taken = ids(saver, 60 // before)
        return taken, saver.state_dict()

    saved = RankThreads(before).run(begins)
    served = Counter(i for taken, _ in saved for each in taken for i in each)
    state = saved[-1][1]  # any will do

    def goes_on(rank):
        second = loader(rank, after)
        second.load_state_dict(state)
        taken = ids(second, 20)
        third = loader(rank, after)  # and once more, on as many
        third.load_state_dict(second.state_dict())
        return taken + ids(third)

    uses = Counter()
    with warnings.catch_warnings(record=True) as warned:  # of all threads
        warnings.simplefilter("always")
        for taken in RankThreads(after).run(goes_on):
            uses.update(i for each in taken for i in each)
    said = [str(one.message) for one in warned]
    assert len(said) == after
    first = min(i for i in uses)
    assert first > 0, "served batches are not served anew"
    again = sum(1 for i in served if i >= first)
    for message in said:
        assert f"taken on {'one rank' if before == 1 else f'{before} ranks'}" in message
        most = int(re.search(r"up to (\d+) fresh", message)[1]) * size
        assert again <= most <= again + 32 * before, "the windows"
    for number in range(length):
        assert served[number] + uses[number] >= 2, "nothing is lost"
        assert number < first or uses[number] == 2, "the rest is used exactly"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda s: s.update(ranks=s["ranks"].replace(": 1", ": 7")),
            "damaged: its checksum",
        ),
        (lambda s: s.pop("ranks"), "damaged: its checksum"),
    ],
)
def test_damaged_states_are_refused(change, text):
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        ids(loader, 3)
        state = loader.state_dict()
        change(state)
        loader.load_state_dict(state)

    for error in RankThreads(2).run(rank_does):
        assert isinstance(error, echobuf.StateError)
        assert text in str(error)


def test_a_state_of_a_rank_ahead_is_refused_by_the_rank_behind():
    taken = threading.Event()

    def saves(rank):
        loader = make(shard(0, 1, 40), "drop")
        batches = iter(loader)
        until(lambda: loader.stats().fresh >= 24)  # several batches are ready
        next(batches)
        if rank == 0:
            next(batches)
            state = loader.state_dict()
            taken.set()
            return state
        assert taken.wait(30)
        return loader.state_dict()

    ahead, _ = RankThreads(2).run(saves)

    def loads(rank):
        make(shard(0, 1, 40), "drop").load_state_dict(ahead)

    fine, refused = RankThreads(2).run(loads)
    assert fine is None, "its own"
    assert isinstance(refused, echobuf.StateError)
    assert "is that of rank 0, taken when rank 1 had not come as far" in str(refused)


def test_each_ranks_state_has_its_seed():
    def saves(rank):
        loader = make(shard(0, 1, 40), "drop", seed=rank)
        ids(loader, 3)
        return loader.state_dict()

    states = RankThreads(2).run(saves)
    assert RankThreads(2).run(
        lambda r: make([], "drop", seed=r).load_state_dict(states[r])
    ) == [None, None]
    _, refused = RankThreads(2).run(
        lambda r: make([], "drop", seed=0).load_state_dict(states[r])
    )
    assert "`state` was taken with `seed` 1 on rank 1, but here it is 0" in str(refused)


def test_a_loader_without_ranks_loads_a_state_of_ranks():
    def rank_does(rank):
        loader = make(shard(rank, 2, 80), "drop")
        ids(loader, 9)
        return loader.state_dict()

    (state, _) = RankThreads(2).run(rank_does)
    arguments = {"batch_size": 4, "window": 16, "factor": 2, "seed": 5}
    alone = EchoLoader(shard(0, 1, 80), **arguments)
    with pytest.warns(UserWarning, match="taken on 2 ranks, and there are 1 now"):
        alone.load_state_dict(state)
    first = ids(alone, 5)
    saved = alone.state_dict()
    assert saved["fresh_offset"] >= state["fresh_offset"], "that of the upstream"
    again = EchoLoader(shard(0, 1, 80), **arguments)
    again.load_state_dict(saved)
    rest = ids(alone := again)
    assert Counter(i for each in first + rest for i in each).keys() <= set(range(80))
    with pytest.raises(
        echobuf.StateError, match="taken by an `echobuf\\.torch\\.EchoL"
    ):
        echobuf.EchoLoader(shard(0, 1, 80), **arguments).load_state_dict(state)
    with pytest.raises(echobuf.StateError, match="taken by an `EchoLoader`"):
        echobuf.EchoBuffer(
            {"id": torch.tensor(0).numpy()}, **arguments
        ).load_state_dict(saved)
