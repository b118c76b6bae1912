"""Ranks that agree, whatever their lengths and the time that each batch takes."""

from __future__ import annotations

import random
import time

import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import UpstreamError
from echobuf.state import start_of
from echobuf.torch.ranks.place import Place
from echobuf.torch.ranks.progress import Progress
from echobuf.torch.ranks.session import Session
from echobuf.torch.ranks.together import Together
from ranks.rank_threads import Threads

FAILS, LEAVES = "fails", "leaves"


class Numbers:
    """An epoch of so many batches, 1 2 3 ..., that takes its time; then it may fail."""

    def __init__(self, count, fails, seed):
        self.left, self.fails, self.random = count, fails, random.Random(seed)
        self.number = 0

    def ready(self):
        return self.random.random() < 0.6

    def draw(self, timeout):
        if timeout is not None and self.random.random() < 0.3:
            time.sleep(1e-4)
            raise TimeoutError
        if self.number == self.left:
            if self.fails:
                raise UpstreamError("the disk is gone")
            raise StopIteration
        self.number += 1
        import torch

        return {"number": torch.tensor(self.number)}

    def position(self):
        return {**start_of(0), "fresh_offset": self.number}

    def give_way(self):
        pass


class Begin:
    """Beside the others, at the start."""

    def __init__(self, session):
        self.session = session

    def __call__(self, epoch):
        progress = Progress(0, Place(0, 0, None, 0, again=False, seed=0))
        self.session.begin(0, 0, progress.place, {})
        return self.session, progress


def take(together, most):
    """The numbers handed out, and how it ended."""
    numbers = []
    try:
        for batch in together:
            numbers.append(int(batch["number"]))
            batch["number"].zero_()  # they are the caller's
            if len(numbers) == most:
                return numbers, LEAVES
    except UpstreamError as error:
        return numbers, error
    assert next(together, None) is None
    return numbers, "ends"


def epochs(ends, pad, ahead, seed):
    """Two epochs of ranks that end so: (batches, how)."""
    threads = Threads(len(ends))

    def rank_does(rank):
        meeting, told = threads.meeting(rank), []
        for number in (1, 2):
            count, how = ends[rank]
            together = Together(
                Numbers(
                    20 if how == LEAVES else count,
                    how == FAILS,
                    f"{seed} {rank} {number}",
                ),
                Begin(Session(meeting, number, apart=12)),
                pad=pad,
                ahead=ahead,
                finished=lambda: None,
            )
            told.append(take(together, count if how == LEAVES else None))
            if isinstance(told[-1][1], UpstreamError):
                with pytest.raises(UpstreamError) as again:
                    next(together)
                assert str(again.value) == str(told[-1][1]), "the same again"
            assert together._progress.done == (told[-1][1] == "ends")
            del together
        return told

    return threads.run(rank_does)


@st.composite
def some_ends(draw, hows):
    ranks = draw(st.integers(1, 4))
    return [
        (draw(st.integers(0, 12)), draw(st.sampled_from(hows))) for _ in range(ranks)
    ]


def served(count, batches, pad):
    """What a rank that has `count` batches hands out of `batches`."""
    return [*range(1, min(count, batches) + 1), *[count] * (batches - count)]


@settings(max_examples=60)
@given(some_ends(["ends"]), st.integers(1, 5), st.integers(0, 1000))
def test_the_epoch_ends_with_the_shortest(ends, ahead, seed):
    batches = min(count for count, _ in ends)
    for told in epochs(ends, False, ahead, seed):
        assert told == [(served(batches, batches, False), "ends")] * 2


@settings(max_examples=60)
@given(some_ends(["ends"]), st.integers(1, 5), st.integers(0, 1000))
def test_the_epoch_ends_with_the_longest(ends, ahead, seed):
    counts = [count for count, _ in ends]
    told = epochs(ends, True, ahead, seed)
    if min(counts) == 0 < max(counts):
        bare = [rank for rank, count in enumerate(counts) if count == 0]
        for numbers, error in (one for each in told for one in each):
            assert numbers == []
            assert all(
                f"rank {rank} has no batch to pad with" in str(error) for rank in bare
            )
        return
    for rank, each in enumerate(told):
        assert each == [(served(counts[rank], max(counts), True), "ends")] * 2


@settings(max_examples=60)
@given(
    some_ends(["ends", FAILS, FAILS]),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 1000),
)
def test_all_stop_at_the_same_batch_when_one_fails(ends, pad, ahead, seed):
    told = epochs(ends, pad, ahead, seed)
    assert len({len(numbers) for each in told for numbers, _ in each}) == 1
    batches = len(told[0][0][0])
    failed = [rank for rank, (count, how) in enumerate(ends) if how == FAILS]
    for rank, each in enumerate(told):
        for _, end in each:
            if end == "ends":
                assert all(ends[r][0] >= batches for r in failed)
            elif str(end) == "the disk is gone":
                assert rank in failed, "its own error"
                assert ends[rank][0] == batches
            elif "failed" in str(end):
                named = {r for r in failed if f"rank {r} failed: the disk" in str(end)}
                assert named
                assert all(ends[r][0] == batches for r in named)
            else:
                assert pad
                assert "no batch to pad with" in str(end)


@settings(max_examples=40)
@given(
    st.integers(2, 4),
    st.integers(1, 5),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 1000),
)
def test_who_leaves_is_named(ranks, batches, pad, ahead, seed):
    ends = [(batches, LEAVES), *[(20, "ends")] * (ranks - 1)]
    for each in epochs(ends, pad, ahead, seed)[1:]:
        for numbers, error in each:
            assert batches <= len(numbers) <= batches + max(ahead, 2)
            assert f"rank 0 has left its loop after {batches} batches" in str(error)


def test_all_may_leave_and_begin_again():
    for told in epochs([(3, LEAVES)] * 3, False, 2, 0):
        assert told == [([1, 2, 3], LEAVES)] * 2
