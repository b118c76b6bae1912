"""What a rank runs, started as by torchrun: `python rank_programs.py NAME ARGS`."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from echobuf.torch import EchoLoader

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def say(**what):
    print(json.dumps(what), flush=True)


def shard(lengths):
    """Of (rank, number) examples as many as `lengths` says for this rank."""
    return [
        {"id": torch.tensor([RANK, i]), "x": torch.full((4,), 1.0 + i)}
        for i in range(lengths[RANK])
    ]


class Slow:
    """Takes its time with each example."""

    def __init__(self, examples, seconds):
        self.examples, self.seconds = examples, seconds

    def __iter__(self):
        for example in self.examples:
            time.sleep(self.seconds)
            yield example


def step():
    """What every step of the training does: it needs all ranks."""
    dist.all_reduce(torch.ones(1))


def epochs(uneven, factor, lengths, count=2, slow=None, **more):
    """Batches of each epoch, in lockstep with the other ranks."""
    upstream = shard(lengths)
    if slow is not None:
        upstream = Slow(upstream, slow[RANK])
    loader = EchoLoader(
        upstream, batch_size=4, window=16, factor=factor, uneven=uneven, **more
    )
    for _ in range(count):
        ids = []
        for batch in loader:
            ids.append(batch["id"][:, 1].tolist())
            assert (batch["id"][:, 0] == RANK).all()
            assert torch.equal(batch["x"][:, 0], 1.0 + batch["id"][:, 1])
            step()
        say(ids=ids, epoch=loader.state_dict()["epoch"])


def fails(where, lengths):
    """Rank 1 fails: its upstream raises, it is killed, or its loop is left."""
    examples = shard(lengths)

    def upstream():
        for number, example in enumerate(examples):
            if RANK == 1 and number == 40 and where == "upstream":
                raise OSError("the disk is gone")
            yield example

    loader = EchoLoader(upstream(), batch_size=4, window=16, factor=2, uneven="drop")
    begun = time.monotonic()
    try:
        for number, _ in enumerate(loader):
            begun = time.monotonic()
            if RANK == 1 and number == 10 and where == "killed":
                os.kill(os.getpid(), 9)
            if RANK == 1 and number == 10 and where == "left":
                break
        say(ended=True)
        time.sleep(6)
        os._exit(0)
    except Exception as error:
        took = time.monotonic() - begun
        say(error=type(error).__name__, text=str(error), took=took)
        os._exit(0)


def differs():
    """The window is not the same on all ranks."""
    loader = EchoLoader(
        shard([50] * SIZE), batch_size=4, window=16 + RANK // 2, factor=2, uneven="pad"
    )
    try:
        iter(loader)
    except Exception as error:
        say(error=type(error).__name__, text=str(error))


def leaves(lengths):
    """All ranks leave an epoch after three batches, and begin another."""
    loader = EchoLoader(shard(lengths), batch_size=4, window=16, factor=2, uneven="pad")
    for number, _ in enumerate(loader):
        step()
        if number == 2:
            break
    ids = [batch["id"][:, 1].tolist() for batch in loader]
    say(ids=ids)


def resumes(path, action, steps):
    """Saves after some steps, or goes on and says what is served."""
    data = [{"id": torch.tensor(i)} for i in range(240)]
    sampler = DistributedSampler(data, shuffle=False)
    upstream = DataLoader(data, batch_size=6, sampler=sampler)
    loader = EchoLoader(
        upstream, batch_size=4, window=16, factor=2, uneven="drop", seed=3
    )
    if action == "load":
        ours = f"{path}.{RANK}" if os.path.exists(f"{path}.{SIZE - 1}") else f"{path}.0"
        with open(ours) as file, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            loader.load_state_dict(json.load(file))
        say(warned=[str(one.message) for one in warned])
    ids = []
    for number, batch in enumerate(loader):
        ids.append(batch["id"].tolist())
        step()
        if action == "save" and number + 1 == steps:
            with open(f"{path}.{RANK}", "w") as file:
                json.dump(loader.state_dict(), file)
    say(ids=ids)


def no_group():
    """`uneven` without a process group, and `group` without `uneven`."""


def main():
    name, arguments = sys.argv[1], json.loads(sys.argv[2])
    dist.init_process_group("gloo")
    globals()[name](**arguments)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
