"""A program whose forked children exit while their threads use a buffer.

`python exits.py TURNS SEED`: the parent imports everything and makes no buffer and no
thread; a child makes its own, and falls off the end of this file at a random moment, so
that all of the interpreter's finalisation runs. Prints how many children ended well.
See test_fault_exits.py.
"""

import gc
import os
import random
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import echobuf

LIMIT_S = 60  # a child that takes longer hangs
KEPT: list[Any] = []  # alive until the interpreter takes modules apart


def for_ever(call: Callable[..., Any], *args: Any) -> None:
    """Calls from a daemon thread until the process is gone."""

    def run() -> None:
        while True:
            call(*args)

    threading.Thread(target=run, daemon=True).start()


class Use:
    """A buffer in full use, in a child."""

    def __init__(self, chance: random.Random) -> None:
        self.rows = chance.choice([1, 1000, 60_000])
        self.kwargs = {
            "window": 16,
            "batch_size": chance.choice([1, 8]),
            "factor": chance.choice([1, 2, 1.5, "auto"]),
            "prefetch": chance.choice([0, 0, 1, 3]),
        }
        self.chance = chance

    def make(self) -> echobuf.EchoBuffer:
        return echobuf.EchoBuffer(echobuf.Field((self.rows,), float), **self.kwargs)

    def threads(self) -> None:
        """Some of the calls go on for ever, each in a thread."""
        buffer = self.make()
        shape = (self.kwargs["batch_size"], self.rows)
        calls: list[tuple[Any, ...]] = [
            (buffer.put, np.zeros(self.rows)),
            (buffer.put_batch, np.zeros((99, self.rows))),
            (buffer.next_batch,),
            (buffer.next_batch, np.zeros(shape)),
            (buffer.stats,),
            (buffer.reset,),
        ]
        if self.chance.random() < 0.5:
            calls.pop()  # else nothing is ever put for sure
            for_ever(*calls[1])
            for_ever(*calls[2])
        for call in self.chance.sample(calls[:5], 2):
            for_ever(self.quietly, *call)
        if self.chance.random() < 0.5:
            KEPT.append(buffer)

    @staticmethod
    def quietly(call: Callable[..., Any], *args: Any) -> None:
        try:
            call(*args)
        except (StopIteration, echobuf.EchobufError):
            time.sleep(0.001)

    def loader(self) -> None:
        """A loop over a loader is left without a word."""
        slow = self.chance.random() < 0.5

        def upstream() -> Iterator[np.ndarray]:
            for number in range(10**6):
                if slow and number > 30:
                    time.sleep(0.001)
                yield np.zeros(self.rows)

        epoch = iter(echobuf.EchoLoader(upstream(), **self.kwargs))
        for _ in range(self.chance.randrange(20)):
            KEPT[:] = [next(epoch)]
        if self.chance.random() < 0.5:
            KEPT.append(epoch)

    def held(self) -> None:
        """Batches outlive their buffer, and go when the interpreter does."""
        buffer = self.make()
        for_ever(self.quietly, buffer.put, np.zeros(self.rows))
        held = [buffer.next_batch() for _ in range(self.chance.randrange(1, 6))]
        sys.held = held  # type: ignore[attr-defined]
        threading.current_thread().held = held[:1]  # type: ignore[attr-defined]
        if self.chance.random() < 0.5:
            buffer.__exit__(None, None, None)

    def run(self) -> int:
        """Begins, and says with what code to exit."""
        self.chance.choice([self.threads, self.threads, self.loader, self.held])()
        if self.chance.random() < 0.7:
            time.sleep(self.chance.uniform(0, 0.01))
        return self.chance.choice([0, 0, 0, 3])


def ended(child: int) -> int:
    """The exit code of a child; kills one that hangs."""
    handle = os.pidfd_open(child)
    if not select.select([handle], [], [], LIMIT_S)[0]:
        os.kill(child, signal.SIGABRT)
    os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(turns: int, seed: int) -> int:
    """Comes back in every child, and at last in the parent, with the code to exit."""
    gc.freeze()  # children collect what they have made, not what was imported
    for turn in range(turns):
        told, tell = os.pipe()
        if (child := os.fork()) == 0:
            code = Use(random.Random(seed + turn)).run()
            os.write(tell, bytes([code]))
            return code
        os.close(tell)
        status = ended(child)
        expected = os.read(told, 1)
        os.close(told)
        assert [status] == list(expected), f"child {seed + turn} ended with {status}"
    print(turns)
    return 0


if __name__ == "__main__":
    code = main(int(sys.argv[1]), int(sys.argv[2]))
    if code:
        sys.exit(code)
