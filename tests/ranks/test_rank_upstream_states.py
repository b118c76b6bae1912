"""Loaders with `uneven` around upstreams that have a state."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

import torch

from echobuf.torch import EchoLoader
from opened_states import opened
from ranks import rank_threads
from ranks.rank_threads import RankThreads

N = 240


@pytest.fixture(autouse=True)
def ranks_are_threads(monkeypatch):
    rank_threads.patch(monkeypatch)


class Shard:
    """Every n-th of N examples, with a state; records the numbers that are read."""

    def __init__(self, rank, size):
        self.numbers = range(rank, N, size)
        self.read = []
        self.at = self.begin = 0

    def __iter__(self):
        self.at, self.begin = self.begin, 0
        for number in self.numbers[self.at :]:
            self.read.append(number)
            self.at += 1
            yield {"id": torch.tensor(number)}

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.begin = state["at"]


def make(shard):
    return EchoLoader(shard, uneven="drop", batch_size=4, window=16, factor=2, seed=5)


def begin(rank, cut=40):
    """Draw some batches; return the state after them and the rest of the epoch."""
    loader = make(Shard(rank, 2))
    epoch = iter(loader)
    for _ in range(cut):
        next(epoch)
    state = json.loads(json.dumps(loader.state_dict()))
    return state, [batch["id"].tolist() for batch in epoch]


def test_each_ranks_upstream_continues_at_its_state():
    results = RankThreads(2).run(begin)

    def go_on(rank):
        state, expected = results[rank]
        shard = Shard(rank, 2)
        loader = make(shard)
        loader.load_state_dict(state)
        assert [batch["id"].tolist() for batch in loader] == expected
        assert shard.read == list(shard.numbers[state["fresh_offset"] :])
        return [batch["id"].tolist() for batch in loader]

    for state, _ in results:
        assert 0 < opened(state)["upstream"]["offset"] == state["fresh_offset"]
    assert [len(each) for each in RankThreads(2).run(go_on)] == [60, 60]


def test_on_another_number_of_ranks_upstream_begins_at_its_start():
    results = RankThreads(2).run(begin)

    def go_on(rank):
        shard = Shard(rank, 1)
        loader = make(shard)
        with pytest.warns(UserWarning, match="was taken on 2 ranks"):
            loader.load_state_dict(results[0][0])
        served = {i for batch in loader for i in batch["id"].tolist()}
        assert shard.read == list(range(N))
        return served

    offset = results[0][0]["fresh_offset"]
    assert RankThreads(1).run(go_on) == [set(range(2 * offset, N))]
