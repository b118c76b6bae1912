"""Ranks as they are: processes that share a cache over gloo's process group."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

pytest.importorskip("torch")

from torch.utils.data.distributed import DistributedSampler

from cache_data import COUNT
from ranks.rank_processes import run

PROGRAMS = Path(__file__).parents[1] / "cache" / "peer_programs.py"
BATCH = 3


def global_batches(ranks, epoch):
    """Return the global batches of torch's sampler."""
    batches: list[list[int]] = []
    for rank in range(ranks):
        sampler = DistributedSampler(range(COUNT), ranks, rank, seed=1)
        sampler.set_epoch(epoch)
        own = list(sampler)
        for at in range(0, len(own), BATCH):
            if rank == 0:
                batches.append([])
            batches[at // BATCH] += own[at : at + BATCH]
    return [sorted(batch) for batch in batches]


def test_three_ranks_go_on_when_the_fourth_is_killed():
    results = run(PROGRAMS, 4, "train", killed=2)
    for epoch in range(3):
        said = [each[epoch] for each in results]
        batches = [
            sorted(chain.from_iterable(parts))
            for parts in zip(*(one["batches"] for one in said), strict=True)
        ]
        assert batches == global_batches(4, epoch)
        assert sum(one["misses"] for one in said) == COUNT, "in the first epoch"
        assert sum(one["items"] for one in said) == COUNT
        served = sum(one["hits"] + one["from_peers"] for one in said)
        assert served == epoch * COUNT
    results.pop(2)
    for *_, end in results:
        assert end["lost"] == [2]
        (warned,) = end["warned"]
        assert "rank 2 does not answer" in warned
    after = Counter(chain.from_iterable(each[3]["after"] for each in results))
    assert max(after.values()) == 1, "each of the others has its own part"
    assert after.total() == 3 * COUNT // 4


def test_workers_of_an_echo_loader_fetch_from_peers():
    results = run(PROGRAMS, 2, "echo", killed=1)
    for epoch in range(2):
        served = Counter(number for each in results for number in each[epoch]["served"])
        assert served == Counter(dict.fromkeys(range(COUNT), 2))
    # The first example of all is made in the training process, too, at the same time.
    assert all(each[1]["misses"] == each[0]["misses"] for each in results)
    assert 0 <= sum(each[2]["misses"] for each in results) - COUNT <= 2
    assert "the process group was destroyed" in results[1][3]["error"]
    # Rank 1 may be gone by then.
    assert re.match("the process group was|rank 1 is gone", results[0][3]["error"])
    assert "rank 1 of the cache does not answer" in results[0][4]["error"]
