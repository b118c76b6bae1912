"""Loaders with `uneven`, one a thread, which know each other as ranks do."""

from __future__ import annotations

import gc
import json
import re
import threading
import time
import warnings
import weakref
from collections import Counter

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf.torch import EchoLoader
from echobuf.torch.ranks.session import Session
from ranks import rank_threads
from ranks.rank_threads import Threads


@pytest.fixture(autouse=True)
def ranks_are_threads(monkeypatch):
    rank_threads.patch(monkeypatch)


def shard(rank, size, length):
    """Every n-th of so many examples."""
    return [{"id": torch.tensor(i)} for i in range(rank, length, size)]


def make(upstream, uneven, **more):
    arguments = {"batch_size": 4, "window": 16, "factor": 2, "seed": 5, **more}
    return EchoLoader(upstream, uneven=uneven, **arguments)


def ids(loader, most=None):
    """Those of each batch, of at most so many."""
    told = []
    for batch in loader:
        told.append(batch["id"].tolist())
        if len(told) == most:
            break
    return told


# ---- an epoch


@pytest.mark.parametrize("uneven", ["drop", "pad"])
@pytest.mark.parametrize("factor", [2, 2.5, 1])
def test_shards_of_unequal_length(uneven, factor):
    lengths = [20, 60, 41]
    alone = [len(make(shard(0, 1, n), None, factor=factor)) for n in lengths]
    batches = {"drop": min, "pad": max}[uneven](alone)

    def rank_does(rank):
        loader = make(shard(0, 1, lengths[rank]), uneven, factor=factor)
        assert len(loader) == batches
        epochs = [ids(loader) for _ in range(2)]
        assert loader.state_dict()["epoch"] == 2
        return epochs

    for length, own, epochs in zip(
        lengths, alone, Threads(3).run(rank_does), strict=True
    ):
        assert epochs[0] != epochs[1]
        for epoch in epochs:
            assert len(epoch) == batches
            uses = Counter(i for each in epoch[:own] for i in each)
            assert set(uses) <= set(range(length))
            if own <= batches:
                assert set(uses.values()) <= {int(factor), int(factor + 0.5)}
                assert len(uses) == length
            assert all(each == epoch[own - 1] for each in epoch[own:]), "the last again"


def test_auto_where_ranks_differ_in_speed():
    class Slow:
        def __init__(self, seconds):
            self.seconds = seconds

        def __iter__(self):
            for i in range(100):
                time.sleep(self.seconds)
                yield {"id": torch.tensor(i)}

    def rank_does(rank):
        return ids(make(Slow([0.0005, 0.004][rank]), "drop", factor="auto"))

    fast, slow = Threads(2).run(rank_does)
    assert len(fast) == len(slow) >= 25
    for epoch in (fast, slow):
        assert max(Counter(i for each in epoch for i in each).values()) <= 8


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_nothing_at_all(uneven):
    assert Threads(2).run(lambda rank: ids(make([], uneven))) == [[], []]


def test_empty_shards():
    assert Threads(2).run(lambda r: ids(make(shard(0, 1, 8 * r), "drop"))) == [[], []]
    for error in Threads(2).run(lambda r: ids(make(shard(0, 1, 8 * r), "pad"))):
        assert isinstance(error, echobuf.UpstreamError)
        assert "rank 0 has no batch to pad with: its shard has too few" in str(error)


def test_what_is_padded_with_is_the_callers():
    def rank_does(rank):
        told = []
        for batch in make(shard(0, 1, [8, 24][rank]), "pad", factor=1):
            told.append(batch["id"].tolist())
            batch["id"].fill_(-1)
        return told

    short, _ = Threads(2).run(rank_does)
    assert len(short) == 6
    assert short[2:] == [short[1]] * 4


def test_overlapping_epochs():
    def rank_does(rank):
        loader = make(shard(0, 1, [40, 48][rank]), "drop", overlap_epochs=True)
        return [ids(loader) for _ in range(3)]

    one, two = Threads(2).run(rank_does)
    assert [len(epoch) for epoch in one + two] == [20] * 6
    assert Counter(i for each in one[2] for i in each) == dict.fromkeys(range(40), 2)


# ---- states


@st.composite
def cut_epochs(draw):
    lengths = draw(st.lists(st.integers(4, 40), min_size=1, max_size=3))
    return lengths, draw(st.floats(0, 1)), draw(st.sampled_from([1, 2, 1.5]))


@settings(max_examples=25)
@given(cut_epochs(), st.sampled_from(["drop", "pad"]), st.booleans(), st.booleans())
def test_resumed_on_as_many_ranks(cut, uneven, left, shared):
    lengths, at, factor = cut
    threads = Threads(len(lengths))
    step = threading.Barrier(len(lengths))

    def upstream(rank):
        return shard(0, 1, lengths[rank])

    def whole(rank):
        loader = make(upstream(rank), uneven, factor=factor)
        told, states = [], [loader.state_dict()]
        for batch in loader:
            told.append(batch["id"].tolist())
            step.wait()
            states.append(loader.state_dict())
            step.wait()
        return told, states, ids(loader)

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

    for rank, (first, second, epoch) in enumerate(Threads(threads.size).run(resumed)):
        told, _, following = runs[rank]
        rest = told[steps + left :] if steps + left <= len(told) else None
        whole_epoch = steps == len(told) or (left and steps + 1 == len(told))
        if not whole_epoch:
            assert (first, second, epoch) == (rest, following, 2)


def test_a_state_of_the_last_batch_is_the_next_epoch():
    def rank_does(rank):
        loader = make(shard(0, 1, [16, 30][rank]), "drop")
        for number, _ in enumerate(loader):
            told = loader.state_dict()
            assert told["epoch"] == (1 if number == 7 else 0)
        return number

    assert Threads(2).run(rank_does) == [7, 7]


def test_a_state_after_the_loop_was_left():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        first = ids(loader, 3)
        state = loader.state_dict()
        whole = make(shard(0, 1, 40), "drop")
        told = ids(whole)
        again = make(shard(0, 1, 40), "drop")
        again.load_state_dict(state)
        assert first + ids(again) == told
        return True

    assert Threads(2).run(rank_does) == [True, True]


def test_states_between_iter_and_the_first_batch():
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
        assert (state["epoch"], state["position"]) == (1, None)
        return first

    assert Threads(2).run(rank_does) == [ids(make(shard(0, 1, 40), None))] * 2


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (2, 1), (1, 2), (4, 2)])
@pytest.mark.parametrize("unit", ["example", "batch"])
def test_resumed_on_another_number_of_ranks(before, after, unit):
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
        told = ids(saver, 60 // before)
        return told, saver.state_dict()

    saved = Threads(before).run(begins)
    served = Counter(i for told, _ in saved for each in told for i in each)
    state = saved[-1][1]  # any will do

    def goes_on(rank):
        second = loader(rank, after)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            second.load_state_dict(state)
        told = ids(second, 20)
        third = loader(rank, after)  # and once more, on as many
        third.load_state_dict(second.state_dict())
        return [str(one.message) for one in warned], told + ids(third)

    # The warnings of threads get mixed up.
    uses, said = Counter(), []
    for messages, told in Threads(after).run(goes_on):
        uses.update(i for each in told for i in each)
        said += messages
    assert len(said) == after
    first = min(i for i in uses)
    assert first > 0, "what was done is not begun anew"
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
        (lambda s: s["ranks"].update(rank=7), "damaged: its checksum"),
        (lambda s: s.pop("ranks"), "damaged: its checksum"),
    ],
)
def test_damaged_states(change, text):
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        ids(loader, 3)
        state = loader.state_dict()
        change(state)
        loader.load_state_dict(state)

    for error in Threads(2).run(rank_does):
        assert isinstance(error, echobuf.StateError)
        assert text in str(error)


def test_a_state_of_a_rank_that_was_ahead_of_another():
    taken = threading.Event()

    def saves(rank):
        loader = make(shard(0, 1, 40), "drop")
        batches = iter(loader)
        while loader.stats().fresh < 24:  # several batches are ready
            time.sleep(0.001)
        next(batches)
        if rank == 0:
            next(batches)
            state = loader.state_dict()
            taken.set()
            return state
        assert taken.wait(30)
        return loader.state_dict()

    ahead, _ = Threads(2).run(saves)

    def loads(rank):
        make(shard(0, 1, 40), "drop").load_state_dict(ahead)

    fine, refused = Threads(2).run(loads)
    assert fine is None, "its own"
    assert isinstance(refused, echobuf.StateError)
    assert "is that of rank 0, taken when rank 1 had not come as far" in str(refused)


def test_each_rank_has_its_seed():
    def saves(rank):
        loader = make(shard(0, 1, 40), "drop", seed=rank)
        ids(loader, 3)
        return loader.state_dict()

    states = Threads(2).run(saves)
    assert Threads(2).run(
        lambda r: make([], "drop", seed=r).load_state_dict(states[r])
    ) == [None, None]
    _, refused = Threads(2).run(
        lambda r: make([], "drop", seed=0).load_state_dict(states[r])
    )
    assert "`state` was taken with `seed` 1 on rank 1, but here it is 0" in str(refused)


def test_a_state_of_ranks_elsewhere():
    def rank_does(rank):
        loader = make(shard(rank, 2, 80), "drop")
        ids(loader, 9)
        return loader.state_dict()

    (state, _) = Threads(2).run(rank_does)
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


# ---- when something goes wrong


def test_different_arguments_are_said_before_the_first_batch():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "pad", window=16 + rank // 2)
        next(iter(loader))

    for error in Threads(3).run(rank_does):
        assert isinstance(error, echobuf.OptionError)
        assert str(error).startswith(
            "`window` differs between ranks (rank 0: 16, rank 1: 16, rank 2: 17)"
        )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([{"factor": 2}, {"factor": "auto"}], "factor"),
        ([{"batch_size": 4}, {"batch_size": 8}], "batch_size"),
        ([{"drop_last": True}, {}], "drop_last"),
    ],
)
def test_each_argument_is_compared(arguments, name):
    for error in Threads(2).run(
        lambda r: ids(make(shard(0, 1, 40), "drop", **arguments[r]))
    ):
        assert isinstance(error, echobuf.OptionError)
        assert f"`{name}` differs between ranks" in str(error)


def test_seeds_may_differ():
    def rank_does(rank):
        return ids(make(shard(0, 1, 40), "drop", seed=rank))

    one, two = Threads(2).run(rank_does)
    assert len(one) == len(two)
    assert one != two


def test_what_is_uneven_differs():
    for error in Threads(2).run(
        lambda rank: ids(make(shard(0, 1, 40), ["drop", "pad"][rank]))
    ):
        assert "`uneven` differs between ranks (rank 0: 'drop', rank 1: 'pad')" in str(
            error
        )


def test_examples_that_differ():
    def rank_does(rank):
        ids(make([{"id": torch.zeros(2 + rank)}], "drop"))

    for error in Threads(2).run(rank_does):
        assert "`spec` differs between ranks" in str(error)


class FailsOnce:
    def __init__(self, rank, where):
        self.fails, self.where = rank == 1, where

    def __iter__(self):
        if self.fails and self.where == "iter":
            self.fails = False
            raise OSError("the disk is gone")
        return self._examples()

    def _examples(self):
        for i in range(80):
            if self.fails and self.where == i:
                self.fails = False
                raise OSError("the disk is gone")
            yield {"id": torch.tensor(i)}


@pytest.mark.parametrize("where", ["iter", 0, 1, 40, 79])
@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_upstream_of_one_rank_fails(where, uneven):
    def rank_does(rank):
        loader = make(FailsOnce(rank, where), uneven)
        told = []
        with pytest.raises(echobuf.UpstreamError) as caught:
            told.extend(batch["id"].tolist() for batch in loader)
        if rank == 1:
            assert isinstance(caught.value.__cause__, OSError)
        else:
            assert "rank 1 failed: upstream failed: OSError('the disk" in str(
                caught.value
            )
        # The next epoch is the same one for all, and whole.
        return len(told), loader.state_dict()["epoch"], len(ids(loader))

    results = Threads(3).run(rank_does)
    assert len(set(results)) == 1, results
    taken, epoch, following = results[0]
    assert following == 40
    if where in ("iter", 0):
        assert (taken, epoch) == (0, 0), "nothing of the epoch has happened"


def test_a_first_item_that_cannot_be_stored():
    def rank_does(rank):
        ids(make([{"id": object()} if rank else {"id": torch.zeros(1)}], "drop"))

    good, bad = Threads(2).run(rank_does)
    assert isinstance(bad, echobuf.SpecError)
    assert isinstance(good, echobuf.UpstreamError)
    assert "rank 1 failed: " in str(good)


def test_ranks_in_different_epochs():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        loader.set_epoch(rank)
        with pytest.raises(echobuf.OptionError) as caught:
            ids(loader)
        loader.set_epoch(3)
        return str(caught.value), ids(loader)

    one, two = Threads(2).run(rank_does)
    assert "in different epochs (rank 0: 0, rank 1: 1); say the same" in one[0]
    assert one == two


def test_ranks_that_go_on_from_different_batches():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        states = []
        for _ in loader:
            states.append(loader.state_dict())
        loader.load_state_dict(states[4 + rank])
        next(iter(loader))

    for error in Threads(2).run(rank_does):
        assert isinstance(error, echobuf.StateError)
        assert "different batches of the epoch (rank 0: 5, rank 1: 6)" in str(error)


def test_two_iterators_at_once():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        first = iter(loader)
        next(first)
        second = iter(loader)
        with pytest.raises(echobuf.ClosedError, match="one iterator at a time"):
            next(first)
        return len(list(second))

    assert Threads(2).run(rank_does) == [20, 20]


def test_a_state_loaded_inside_an_epoch_ends_it():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        state = loader.state_dict()
        first = iter(loader)
        one = next(first)["id"].tolist()
        loader.load_state_dict(state)
        with pytest.raises(echobuf.ClosedError):
            next(first)
        return one == ids(loader)[0]

    assert Threads(2).run(rank_does) == [True, True]


def test_an_iterator_that_trainers_try_and_drop():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        for _ in range(rank):
            iter(loader)  # not even as often on all ranks
        iterator = iter(loader)
        loader.set_epoch(3)
        told = [batch["id"].tolist() for batch in iterator]
        assert loader.state_dict()["epoch"] == 4
        return told

    def alone():
        loader = make(shard(0, 1, 40), None)
        loader.set_epoch(3)
        return ids(loader)

    assert Threads(3).run(rank_does) == [alone()] * 3


def test_ctrl_c_while_others_are_waited_for(monkeypatch):
    hear, interrupted = Session._hear, []

    def hear_at_second(self):
        if self.meeting.rank == 0 and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return hear(self)

    monkeypatch.setattr(Session, "_hear", hear_at_second)

    def rank_does(rank):
        batches = iter(make(shard(0, 1, 40), "drop"))
        if rank == 0:
            with pytest.raises(KeyboardInterrupt):
                next(batches)
        return len(list(batches))

    assert Threads(2).run(rank_does) == [20, 20]


def test_errors_hold_no_frames():
    def rank_does(rank):
        loader = make(FailsOnce(rank, 40), "drop")
        batches = iter(loader)
        with pytest.raises(echobuf.UpstreamError):
            list(batches)
        assert batches._error.__traceback__ is None
        dropped = weakref.ref(batches)
        del batches
        return dropped() is None

    gc.disable()
    try:
        assert Threads(2).run(rank_does) == [True, True]
    finally:
        gc.enable()


def test_lengths_that_are_not_known():
    def rank_does(rank):
        upstream = shard(0, 1, 40)
        return len(make(iter(upstream) if rank else upstream, "drop"))

    for error in Threads(2).run(rank_does):
        assert isinstance(error, TypeError)
        assert str(error).startswith("on rank 1 ")


def test_no_threads_are_left():
    def rank_does(rank):
        ids(make(shard(0, 1, 40), "drop"))

    Threads(2).run(rank_does)
    deadline = time.monotonic() + 10
    while left := [t for t in threading.enumerate() if t.name.startswith("echobuf")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"uneven": "cut"}, "`uneven` is 'cut'; it must be 'drop', 'pad' or None"),
        ({"group": object()}, "`group` is given, but `uneven` is not"),
        ({"uneven": "pad", "ahead": 0}, "`ahead` is 0"),
    ],
)
def test_arguments_out_of_range(more, text):
    with pytest.raises(echobuf.OptionError, match=text):
        EchoLoader([torch.zeros(1)], batch_size=1, window=1, **more)


def test_without_a_process_group(monkeypatch):
    monkeypatch.undo()
    with pytest.raises(echobuf.OptionError, match="there is no process group"):
        EchoLoader([torch.zeros(1)], batch_size=1, window=1, uneven="drop")
