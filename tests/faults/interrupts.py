"""A program that is interrupted at random points, again and again, and does the books.

`python interrupts.py CASE TURNS SEED` prints one line: how often it was interrupted,
and how many records were in the calls that were cut off. See test_fault_interrupts.py.
"""

import itertools
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import echobuf
from helpers import expected_batches
from records import Records

SMALL = {"window": 64, "batch_size": 16}
LARGE = {"window": 8, "batch_size": 4}


class Interrupter:
    """Raises KeyboardInterrupt in the main thread at a random time of a call.

    A timer's signal comes at any machine instruction; Python runs its handler between
    two bytecodes, or where the native code looks for signals.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.armed = False
        self.cut = 0
        self.typical_s = 1e-3
        signal.signal(signal.SIGALRM, self._raise)

    def _raise(self, *_: Any) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def call(self, work: Callable[..., Any], *args: Any) -> tuple[list[Any], bool]:
        """Return its result, if any, and True if it was cut off."""
        got: list[Any] = []
        start = time.perf_counter()
        try:
            self.armed = True
            delay_s = self.random.uniform(1e-6, 2 * self.typical_s)
            signal.setitimer(signal.ITIMER_REAL, delay_s)
            got.append(work(*args))
            self.armed = False
        except KeyboardInterrupt:
            self.cut += 1
            return got, True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        # So that about half of the signals come in time.
        self.typical_s += (time.perf_counter() - start - self.typical_s) / 8
        return got, False


class Case:
    """A buffer whose upstream or downstream is interrupted."""

    def __init__(self, name: str, seed: int) -> None:
        self.side, size, prefetch = name.split("-")
        large = size == "large"
        self.records = Records(200_000 if large else 15)
        self.kwargs = {
            **(LARGE if large else SMALL),
            "factor": 2,
            "seed": seed,
            "prefetch": int(prefetch),
            "drop_last": False,
        }
        self.chunk = 6 if large else 150  # of a put_batch; more than there is room for
        self.buffer = echobuf.EchoBuffer(self.records.spec(), **self.kwargs)
        self.interrupter = Interrupter(seed)
        self.lost = 0
        self.put: list[int] = []
        self.served: list[list[int] | None] = []  # None: in the call that was cut off

    # ---- the interrupted side

    def put_and_be_interrupted(self, turns: int) -> None:
        """Puts until interrupted so often; what was put is known all the same."""
        numbers = itertools.count()
        drawing = threading.Thread(target=self.draw_all)
        drawing.start()
        while self.interrupter.cut < turns:
            ids = list(itertools.islice(numbers, self.chunk))
            if self.interrupter.random.random() < 0.5:
                tree, put = self.records.stacked(ids), self.buffer.put_batch
            else:
                del ids[1:]
                tree, put = self.records.one(ids[0]), self.buffer.put
            before = self.buffer.stats().fresh
            _, cut = self.interrupter.call(put, tree)
            accepted = self.buffer.stats().fresh - before
            assert accepted == len(ids) or (cut and accepted < len(ids))
            self.put += ids[:accepted]
            self.lost += len(ids) - accepted
        self.buffer.close()
        drawing.join()

    def draw_and_be_interrupted(self, turns: int) -> None:
        """Draws until interrupted so often; lost is at most the batch of a cut call."""
        size = self.kwargs["batch_size"]
        out = self.records.out(size, gaps=False)
        filling = threading.Thread(target=self.put_all)
        filling.start()
        while self.interrupter.cut < turns:
            into = out if self.interrupter.random.random() < 0.5 else None
            self.book(self.interrupter.call(self.draw, into))
        self.stop = True
        for batch in self.buffer:
            self.served.append(self.records.ids(batch))
        filling.join()

    def draw(self, out: Any) -> Any:
        return self.buffer.next_batch(out=out)

    def book(self, outcome: tuple[list[Any], bool]) -> None:
        got, cut = outcome
        counted = sum(map(len, filter(None, self.served))) + self.lost
        drawn = self.buffer.stats().served - counted
        if got:
            self.served.append(self.records.ids(got[0]))
            assert drawn == len(self.served[-1])
        elif drawn:
            assert cut
            assert drawn == self.kwargs["batch_size"]
            self.served.append(None)
            self.lost += drawn

    # ---- the other side, on a thread

    def draw_all(self) -> None:
        for batch in self.buffer:
            self.served.append(self.records.ids(batch))

    stop = False

    def put_all(self) -> None:
        numbers = itertools.count()
        while not self.stop:
            ids = list(itertools.islice(numbers, self.chunk))
            self.buffer.put_batch(self.records.stacked(ids))
            self.put += ids
        self.buffer.close()

    # ---- the books

    def check(self) -> None:
        """Every batch is the reference's, or was in a call that was cut off."""
        order = expected_batches(self.kwargs, len(self.put))
        expected = [[self.put[number] for number in batch] for batch in order]
        assert len(self.served) == len(expected)
        for got, want in zip(self.served, expected, strict=True):
            assert got is None or got == want


class LoaderCase(Case):
    """The loop over a loader is interrupted, and goes on with the same iterator."""

    def iterate_and_be_interrupted(self, turns: int) -> None:
        def upstream() -> Iterator[Any]:
            while not self.stop:
                self.put.append(len(self.put))
                yield self.records.one(self.put[-1])

        self.buffer.__exit__(None, None, None)
        loader = echobuf.EchoLoader(upstream(), **self.kwargs)
        epoch = iter(loader)
        self.buffer = loader  # has stats() as well
        while self.interrupter.cut < turns:
            self.book(self.interrupter.call(next, epoch))
        self.stop = True
        for batch in epoch:
            self.served.append(self.records.ids(batch))


SIDES = {
    "put": Case.put_and_be_interrupted,
    "next": Case.draw_and_be_interrupted,
    "loop": LoaderCase.iterate_and_be_interrupted,
}


def main(name: str, turns: int, seed: int) -> None:
    case = (LoaderCase if name.startswith("loop") else Case)(name, seed)
    SIDES[case.side](case, turns)
    case.check()
    print(case.interrupter.cut, case.lost)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
