"""Programs of a rank, started as by torchrun: `python rank_programs.py NAME`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from echobuf.torch import EchoLoader

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def say(**what):
    print(json.dumps(what), flush=True)


def shard(length):
    return [{"id": torch.tensor(i)} for i in range(length)]


def make(upstream, uneven="drop", **more):
    arguments = {"batch_size": 4, "window": 16, "factor": 2, **more}
    return EchoLoader(upstream, uneven=uneven, **arguments)


def step():
    """Take a training step, which needs all ranks."""
    dist.all_reduce(torch.ones(1))


class Slow:
    """An upstream that waits before each example."""

    def __iter__(self):
        for example in shard(100):
            time.sleep([0.0005, 0.003, 0.001][RANK])
            yield example


def train():
    """Run epochs in lockstep; then a loader of some of the ranks; then just end."""
    for uneven, upstream, factor in (
        ("drop", shard([41, 60, 50][RANK]), 2),
        ("pad", shard([41, 60, 50][RANK]), 2),
        ("drop", Slow(), "auto"),
    ):
        loader = make(upstream, uneven, factor=factor)
        for _ in range(2):
            batches = 0
            for _ in loader:
                step()
                batches += 1
                if batches == 3 and os.fork() == 0:
                    sys.exit(0)  # a child that leaves all of this alone
            say(batches=batches, epoch=loader.state_dict()["epoch"])
    pair = dist.new_group([0, 2])
    if RANK != 1:
        loader = make(shard([41, 60, 50][RANK]), group=pair)
        say(length=len(loader), batches=len(list(loader)))
    else:
        try:
            make(shard(8), group=pair)
        except Exception as error:
            say(error=type(error).__name__, text=str(error))
    # The first rank here ends at once, with an iterator in the middle of an epoch.
    global kept  # noqa: PLW0603
    kept = iter(make(shard(1000)))
    next(kept)


def kill_one():
    """Kill a rank; the others raise an error that names it."""
    loader = make(shard(1000), factor=4)
    begun = time.monotonic()
    try:
        for number, _ in enumerate(loader):
            begun = time.monotonic()
            if int(sys.argv[2]) == RANK and number == 10:
                os.kill(os.getpid(), signal.SIGKILL)
    except Exception as error:
        took = time.monotonic() - begun
        say(error=type(error).__name__, text=str(error), took=took)
        os._exit(0)


def interrupt():
    """Interrupt a rank that waits for another one, and that one."""

    def never():
        while RANK == 1:
            time.sleep(0.05)
        yield from shard(100)

    class Late:
        def __iter__(self):
            yield {"id": torch.tensor(0)}
            yield from never()

    batches = iter(make(Late()))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    try:
        next(batches)
    except KeyboardInterrupt:
        say(interrupted=True)
    dist.barrier()  # a rank that ended would be missed by the other one


def main():
    dist.init_process_group("gloo")
    globals()[sys.argv[1]]()


if __name__ == "__main__":
    main()
