"""Many threads at one buffer: what the GIL makes nearly serial runs side by side.

For `tests/buffer`, `tests/loader` and, with more of everything, `tests/slow`.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

import echobuf
from echobuf import transforms as T
from helpers import SPEC, WAIT_S, Worker, example, ids_of, stack

THREADS = 8
_SHORT_S = 0.01
_EXPECTED = (echobuf.ClosedError, echobuf.UpstreamError, StopIteration, TimeoutError)

PICTURES = {
    "id": echobuf.Field((), np.int64),
    "image": echobuf.Field((8, 8, 3), np.uint8),
}


class Plain:
    """Examples each of whose bytes follow from the id."""

    spec: Any = SPEC
    transform: Any = None

    def one(self, number: int) -> Any:
        return example(number)

    def many(self, numbers: range) -> Any:
        return stack(numbers)

    def check(self, batch: Any) -> list[int]:
        return ids_of(batch)

    def out(self, rows: int) -> Any:
        return {
            "id": np.zeros(rows, np.int64),
            "body": tuple(
                np.zeros((rows, *field.shape), field.dtype) for field in SPEC["body"]
            ),
        }


class Augmented(Plain):
    """Images of one colour, which crops and flips leave as they are."""

    spec: Any = PICTURES
    transform: Any = {  # noqa: RUF012 - nobody changes it
        "image": [
            T.RandomCrop(6),
            T.RandomHorizontalFlip(),
            T.Lambda(np.copy),
        ]
    }

    def one(self, number: int) -> Any:
        whole = self.many(range(number, number + 1))
        return {"id": whole["id"][0], "image": whole["image"][0]}

    def many(self, numbers: range) -> Any:
        ids = np.asarray(numbers, np.int64)
        image = np.empty((len(ids), 8, 8, 3), np.uint8)
        image[:] = ids[:, None, None, None] % 251
        return {"id": ids, "image": image}

    def check(self, batch: Any) -> list[int]:
        wanted = (batch["id"] % 251)[:, None, None, None]
        assert batch["image"].shape == (len(batch["id"]), 6, 6, 3)
        assert (batch["image"] == wanted).all(), "a record is torn"
        return batch["id"].tolist()

    def out(self, rows: int) -> Any:
        return {
            "id": np.zeros(rows, np.int64),
            "image": np.zeros((rows, 6, 6, 3), np.uint8),
        }


KINDS: dict[str, tuple[Plain, dict[str, Any]]] = {
    "fixed": (Plain(), {"factor": 2}),
    "ahead": (Plain(), {"factor": 2, "prefetch": 2}),
    "auto": (Plain(), {"factor": "auto"}),
    "augmented": (Augmented(), {"factor": 2}),
}


class Storm:
    """Eight threads that call everything that one buffer has, in any order.

    Args:
        kind: of KINDS.
        seed: of the calls.
        calls: of each thread, at least.
        batches: drawn in all, at least.
    """

    def __init__(self, kind: str, seed: int, calls: int, batches: int) -> None:
        self.examples, kwargs = KINDS[kind]
        self.buffer = echobuf.EchoBuffer(
            self.examples.spec,
            batch_size=4,
            window=12,
            transform=self.examples.transform,
            **kwargs,
        )
        self._seed, self._calls, self._batches = seed, calls, batches
        self._numbers = iter(range(2**40))
        self._numbering = threading.Lock()
        # What one thread has drawn another one looks at, and drops.
        self._held: deque[Any] = deque(maxlen=64)
        self._drawn = 0

    def run(self) -> None:
        """Run the threads until all that was asked for has been done."""
        start = threading.Barrier(THREADS)
        threads = [Worker(self._act, i, start) for i in range(THREADS)]
        for thread in threads:
            thread.result()
        self._look_at_held()
        assert self._drawn >= self._batches

    def _act(self, thread: int, start: threading.Barrier) -> None:
        rng = random.Random(self._seed * THREADS + thread)
        calls: dict[Callable[[random.Random], None], int] = {
            self._put: 8,
            self._put_batch: 8,
            self._draw: 24,
            self._draw_into: 12,
            self._look: 4,
            self._save: 4,
            self._look_at_held: 8,
            self._end: 1,
            self._reset: 2,
        }
        done = 0
        start.wait(WAIT_S)
        while done < self._calls or self._drawn < self._batches:
            (call,) = rng.choices([*calls], [*calls.values()])
            with contextlib.suppress(*_EXPECTED):
                call(rng)
            done += 1

    def _take_numbers(self, count: int) -> range:
        with self._numbering:
            first = next(self._numbers)
            for _ in range(count - 1):
                next(self._numbers)
        return range(first, first + count)

    def _put(self, rng: random.Random) -> None:
        del rng
        number = self._take_numbers(1)[0]
        self.buffer.put(self.examples.one(number), timeout=_SHORT_S)

    def _put_batch(self, rng: random.Random) -> None:
        numbers = self._take_numbers(rng.randint(1, 30))
        self.buffer.put_batch(self.examples.many(numbers), timeout=_SHORT_S)

    def _draw(self, rng: random.Random) -> None:
        del rng
        self._held.append(self.buffer.next_batch(timeout=_SHORT_S))
        self._drawn += 1

    def _draw_into(self, rng: random.Random) -> None:
        del rng
        out = self.examples.out(4)
        self.examples.check(self.buffer.next_batch(out=out, timeout=_SHORT_S))
        self._drawn += 1

    def _look(self, rng: random.Random) -> None:
        del rng
        assert self.buffer.ready() in (True, False)
        stats = self.buffer.stats()
        assert stats.resident >= 0
        assert stats.fresh >= 0
        assert "EchoBuffer" in repr(self.buffer)

    def _save(self, rng: random.Random) -> None:
        del rng
        json.dumps(self.buffer.state_dict())

    def _look_at_held(self, rng: random.Random | None = None) -> None:
        for _ in range(16 if rng else 64):
            try:
                batch = self._held.popleft()
            except IndexError:
                return
            self.examples.check(batch)

    def _end(self, rng: random.Random) -> None:
        if rng.random() < 0.5:
            self.buffer.close()
        else:
            self.buffer.fail(KeyError("storm"))

    def _reset(self, rng: random.Random) -> None:
        self.buffer.reset(None if rng.random() < 0.5 else rng.randint(0, 99))


def serve_exactly(storm: Storm, n: int) -> list[int]:
    """Return the uses of `n` examples in the next epoch of a buffer after a storm."""
    buffer, examples = storm.buffer, storm.examples
    buffer.reset()

    def feed() -> None:
        buffer.put_batch(examples.many(range(n)), timeout=WAIT_S)
        buffer.close()

    feeder = Worker(feed)
    uses = [0] * n
    while True:
        try:
            batch = buffer.next_batch(timeout=WAIT_S)
        except StopIteration:
            break
        for number in examples.check(batch):
            uses[number] += 1
    feeder.result()
    return uses
