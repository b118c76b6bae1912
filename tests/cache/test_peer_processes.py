"""Ranks as they are: processes that share a cache over gloo's process group."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

pytest.importorskip("torch")

from torch.utils.data.distributed import DistributedSampler

from cache_data import COUNT
from ranks.rank_processes import run

PROGRAMS = Path(__file__).parent / "peer_programs.py"
BATCH = 3


def global_batches(ranks, epoch):
    """Those of torch's sampler."""
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


@pytest.mark.parametrize("on_lost", ["storage", "raise"])
def test_four_ranks_of_which_one_is_killed(on_lost):
    ranks = 4 if on_lost == "storage" else 3
    told = run(PROGRAMS, ranks, "trains", on_lost, killed=2)
    for epoch in range(3):
        said = [each[epoch] for each in told]
        batches = [
            sorted(chain.from_iterable(parts))
            for parts in zip(*(one["batches"] for one in said), strict=True)
        ]
        assert batches == global_batches(ranks, epoch)
        # All of them from the source in the first epoch, some twice that come twice.
        padded = ranks * -(-COUNT // ranks)
        assert COUNT <= sum(one["misses"] for one in said) <= padded
        assert sum(one["items"] for one in said) == COUNT
        served = sum(one["hits"] + one["from_peers"] for one in said)
        assert served + sum(one["misses"] for one in said) == (epoch + 1) * padded
    told.pop(2)
    for each in told:
        if on_lost == "raise":
            assert "rank 2 of the cache does not answer" in each[3]["error"]
            continue
        assert each[4]["lost"] == [2]
        (warned,) = each[4]["warned"]
        assert "rank 2 does not answer" in warned
    if on_lost == "storage":
        after = Counter(chain.from_iterable(each[3]["after"] for each in told))
        assert max(after.values()) == 1, "each of the others has its own part"


def test_workers_of_an_echo_loader():
    told = run(PROGRAMS, 2, "echoes")
    for epoch in range(2):
        served = Counter(number for each in told for number in each[epoch]["served"])
        assert served == Counter(dict.fromkeys(range(COUNT), 2))
    # The first example of all is made in the training process, too.
    assert all(each[1]["misses"] == each[0]["misses"] for each in told)
    assert sum(each[2]["misses"] for each in told) == COUNT
    for each in told:
        assert "the process group was destroyed" in each[3]["error"]
