"""Workers are killed again and again, and nothing is lost, torn, leaked or hangs.

`python kills.py TURNS SEED` kills workers TURNS times with SIGKILL, at random points of
their lives: while they start, make an example, write it, or wait. Every epoch must be
what it is without workers, every record whole. With `ragged` behind the seed, examples
differ in length; with `arriving`, they enter as they arrive, and each must be served as
often as the factor says. Prints how many were killed, and in how many epochs.
"""

import itertools
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import echobuf
from ragged_worker_data import Texts, texts
from worker_data import Numbers, workers_alive

N = 4000
WORKERS = 3


class Killer(threading.Thread):
    """A thread that kills a worker at times, and sometimes two at once."""

    def __init__(self, turns: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.random = random.Random(seed)
        self.turns = turns
        self.killed: set[int] = set()

    def run(self) -> None:
        while len(self.killed) < self.turns:
            # So long that some live to make examples, and some do not.
            time.sleep(self.random.choice([0.02, 1.0, 2.0]) * self.random.random())
            self.kill(self.random.choice([1, 1, 1, 2]))

    def kill(self, count: int) -> None:
        alive = [worker.pid for worker in workers_alive()]
        for pid in self.random.sample(alive, min(count, len(alive))):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.killed.add(pid)


def served(loader: echobuf.EchoLoader) -> list[int]:
    numbers: list[int] = []
    for batch in loader:
        if "tokens" in batch:
            numbers += itertools.chain.from_iterable(texts([batch]))
            continue
        assert (batch["x"] == batch["id"][:, None]).all(), "a record is torn"
        numbers += batch["id"].tolist()
    return numbers


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def main(
    turns: int, seed: int, *, ragged: bool = False, arriving: bool = False
) -> None:
    order = np.random.default_rng(seed).permutation(N)
    kwargs: dict[str, Any] = {"batch_size": 32, "window": 256, "factor": 2}
    kwargs["sampler"] = order
    if ragged:
        kwargs["payload_bytes"] = 256 * 200
    dataset = Texts(N) if ragged else Numbers(N)
    alone = echobuf.EchoLoader(dataset, **kwargs)
    loader = echobuf.EchoLoader(
        dataset,
        num_workers=WORKERS,
        in_order=not arriving,
        max_restarts=10**6,
        **kwargs,
    )
    killer = Killer(turns, seed)
    epochs = 0
    most = 0
    killer.start()
    while killer.is_alive():
        if arriving:
            assert sorted(served(loader)) == [n for n in range(N) for _ in range(2)]
        else:
            assert served(loader) == served(alone), "the order has changed"
        epochs += 1
        # Of each worker: its pipe, its end of the start, its process.
        most = max(most, open_files())
    del loader
    while workers_alive():
        time.sleep(0.01)
    assert most < 100 + 4 * WORKERS, f"{most} open files"
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    resident = pages * os.sysconf("SC_PAGESIZE")
    assert resident < 200e6, f"{resident} bytes resident"
    print(len(killer.killed), "killed in", epochs, "epochs")


if __name__ == "__main__":
    how = sys.argv[3:]
    main(
        int(sys.argv[1]),
        int(sys.argv[2]),
        ragged="ragged" in how,
        arriving="arriving" in how,
    )
