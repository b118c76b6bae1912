"""Programs of a rank with a cache, started as by torchrun: `peer_programs.py NAME`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import torch.distributed as dist
from torch.utils.data import DataLoader

sys.path.append(str(Path(__file__).parent))

import echobuf
from cache_data import COUNT, Numbered, check
from echobuf.cache.distributed import LocalitySampler, PartitionedDataset
from echobuf.ranks.store import join_group

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
BATCH = 3


def say(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def stats_of(cache):
    stats = cache.stats()
    names = ("hits", "misses", "from_peers", "given", "items")
    return {name: getattr(stats, name) for name in names}


def numbers(got):
    return got["y"]


def train():
    """Train with a worker process; then kill a rank, and go on with the others."""
    cache = PartitionedDataset(Numbered(), 10**6)
    sampler = LocalitySampler(cache, batch_size=BATCH, seed=1)
    loader = DataLoader(
        cache,
        batch_size=BATCH,
        sampler=sampler,
        num_workers=1,
        collate_fn=lambda items: items,
        multiprocessing_context="fork",
    )
    for epoch in range(3):
        sampler.set_epoch(epoch)
        batches = []
        for batch in loader:
            batches.append([got["y"] for got in batch])
            for got in batch:
                check(got, got["y"])
        dist.barrier()
        say(batches=batches, **stats_of(cache))
    dist.barrier()
    if RANK == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(COUNT):
            check(cache[number], number)
        sampler.set_epoch(3)
        say(after=list(sampler))
    say(lost=cache.stats().lost, warned=[str(each.message) for each in caught])
    if RANK == 0:  # it keeps the store
        liveness = join_group(None).liveness
        while len(liveness.gone()) < SIZE - 1:
            time.sleep(0.01)
    os._exit(0)  # gloo would wait for the rank that is gone


def echo():
    """Fetch in workers of an EchoLoader; then destroy the process group.

    Rank 1 is killed at the end.
    """
    cache = PartitionedDataset(Numbered(), 10**6, prepare=numbers, on_lost="raise")
    sampler = LocalitySampler(cache, batch_size=BATCH)
    loader = echobuf.EchoLoader(
        cache, sampler=sampler, num_workers=1, batch_size=BATCH, window=6, factor=2
    )
    for _ in range(2):
        served = [int(y) for batch in loader for y in batch]
        dist.barrier()
        say(served=served, **stats_of(cache))
    dist.barrier()
    dist.destroy_process_group()
    say(misses=cache.stats().misses)
    sampler.set_epoch(9)
    try:
        iter(sampler)
    except echobuf.UpstreamError as error:
        say(error=str(error))
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while cache[1] == 1:  # it is not held here
            pass
    except echobuf.UpstreamError as error:
        say(error=str(error))


def main():
    dist.init_process_group("gloo")
    globals()[sys.argv[1]]()


if __name__ == "__main__":
    main()
