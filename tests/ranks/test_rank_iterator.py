"""Iterators of ranks agree, whatever their lengths and the time a batch takes."""

from __future__ import annotations

import random
import threading
import time

import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import UpstreamError
from echobuf.ranks.agreement import Agreement
from echobuf.ranks.iterator import RankIterator
from echobuf.ranks.states import Progress, RankPosition
from echobuf.state import start_of
from helpers import WAIT_S, Worker
from ranks.rank_threads import RankThreads

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


class StartRendezvous:
    """A rendezvous at the start of an epoch."""

    def __init__(self, agreement):
        self.agreement = agreement

    def __call__(self, epoch):
        self.progress = Progress(0, RankPosition(0, 0, None, 0, again=False, seed=0))
        self.agreement.begin(0, 0, self.progress.at, {})
        return self.agreement, self.progress


def take(iterator, most):
    """Return the numbers handed out, and how the epoch ended."""
    numbers = []
    try:
        for batch in iterator:
            numbers.append(int(batch["number"]))
            batch["number"].zero_()  # they are the caller's
            if len(numbers) == most:
                return numbers, LEAVES
    except UpstreamError as error:
        return numbers, error
    assert next(iterator, None) is None
    return numbers, "ends"


def epochs(ends, pad, ahead, seed):
    """Run two epochs of ranks; `ends` has (batches, how it ends) of each."""
    threads = RankThreads(len(ends))

    def rank_does(rank):
        store, results = threads.rank_store(rank), []
        for number in (1, 2):
            count, how = ends[rank]
            start = StartRendezvous(Agreement(store, number, most_apart=12))
            finished = []
            iterator = RankIterator(
                Numbers(
                    20 if how == LEAVES else count,
                    how == FAILS,
                    f"{seed} {rank} {number}",
                ),
                start,
                pad=pad,
                ahead=ahead,
                end_epoch=lambda finished=finished: lambda: finished.append(True),
            )
            results.append(take(iterator, count if how == LEAVES else None))
            if isinstance(results[-1][1], UpstreamError):
                with pytest.raises(UpstreamError) as again:
                    next(iterator)
                assert str(again.value) == str(results[-1][1]), "the same again"
            assert len(finished) == (results[-1][1] == "ends")
            assert start.progress.is_done == (results[-1][1] == "ends")
            del iterator
        return results

    return threads.run(rank_does)


@pytest.mark.parametrize("pad", [False, True])
def test_threads_of_a_rank_share_its_batches(pad):
    ranks = RankThreads(2)
    counts = [12, 9]

    def rank_does(rank):
        iterator = RankIterator(
            Numbers(counts[rank], False, rank),
            StartRendezvous(Agreement(ranks.rank_store(rank), 1, most_apart=12)),
            pad=pad,
            ahead=3,
            end_epoch=lambda: None,
        )
        start = threading.Barrier(4)

        def draw():
            start.wait(WAIT_S)
            return take(iterator, None)

        return [worker.result() for worker in [Worker(draw) for _ in range(4)]]

    for rank, results in enumerate(ranks.run(rank_does)):
        assert [end for _, end in results] == ["ends"] * 4
        got = sorted(number for numbers, _ in results for number in numbers)
        assert got == served(counts[rank], max(counts) if pad else min(counts), pad)


@st.composite
def some_ends(draw, hows):
    ranks = draw(st.integers(1, 4))
    return [
        (draw(st.integers(0, 12)), draw(st.sampled_from(hows))) for _ in range(ranks)
    ]


def served(count, batches, pad):
    """Return what a rank that has `count` batches hands out of `batches`."""
    return [*range(1, min(count, batches) + 1), *[count] * (batches - count)]


@settings(max_examples=60)
@given(some_ends(["ends"]), st.integers(1, 5), st.integers(0, 1000))
def test_without_padding_the_epoch_ends_with_the_shortest_rank(ends, ahead, seed):
    batches = min(count for count, _ in ends)
    for results in epochs(ends, False, ahead, seed):
        assert results == [(served(batches, batches, False), "ends")] * 2


@settings(max_examples=60)
@given(some_ends(["ends"]), st.integers(1, 5), st.integers(0, 1000))
def test_with_padding_the_epoch_ends_with_the_longest_rank(ends, ahead, seed):
    counts = [count for count, _ in ends]
    results = epochs(ends, True, ahead, seed)
    if min(counts) == 0 < max(counts):
        bare = [rank for rank, count in enumerate(counts) if count == 0]
        for numbers, error in (one for each in results for one in each):
            assert numbers == []
            assert all(
                f"rank {rank} has no batch to pad with" in str(error) for rank in bare
            )
        return
    for rank, each in enumerate(results):
        assert each == [(served(counts[rank], max(counts), True), "ends")] * 2


@settings(max_examples=60)
@given(
    some_ends(["ends", FAILS, FAILS]),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 1000),
)
def test_all_ranks_stop_at_the_same_batch_when_one_fails(ends, pad, ahead, seed):
    results = epochs(ends, pad, ahead, seed)
    assert len({len(numbers) for each in results for numbers, _ in each}) == 1
    batches = len(results[0][0][0])
    failed = [rank for rank, (count, how) in enumerate(ends) if how == FAILS]
    for rank, each in enumerate(results):
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
def test_a_rank_that_leaves_its_loop_is_named(ranks, batches, pad, ahead, seed):
    ends = [(batches, LEAVES), *[(20, "ends")] * (ranks - 1)]
    for each in epochs(ends, pad, ahead, seed)[1:]:
        for numbers, error in each:
            assert batches <= len(numbers) <= batches + max(ahead, 2)
            assert f"rank 0 has left its loop after {batches} batches" in str(error)


def test_all_ranks_may_leave_an_epoch_and_begin_another():
    for results in epochs([(3, LEAVES)] * 3, False, 2, 0):
        assert results == [([1, 2, 3], LEAVES)] * 2
