"""Upload: bytes a second from host arrays to the window, with one to eight producers.

Beside a copy from pinned memory, which is what the bus can do, and one from ordinary
memory. A producer copies into pinned staging, which takes the host's memory bandwidth:
one thread alone may not fill the bus. As many records are drawn as are put.
"""

from __future__ import annotations

import sys
import threading

import numpy as np

from ask import Candidate, Question, Settings
from echobuf import EchoBuffer, Field
from place import Place
from script import main

GB = 1e9


class Pinned:
    """Copies from pinned memory, one after the other; or from ordinary memory."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self.place, self.total = place, settings["total_bytes"]
        size = settings["chunk"] * settings["record_bytes"]
        if settings.get("pageable"):
            self.host = np.ones(size, np.uint8)
        else:
            self.host = place.pinned(size)
            self.host[:] = 1
        self.there = place.empty((size,), np.uint8)

    def run(self) -> float:
        done = 0
        while done < self.total:
            self.place.upload(self.there, self.host)
            done += self.there.nbytes
        return done / GB


class Put:
    """Producers put; the consumer draws each example once, into `out`."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self.place, self.settings = place, settings
        record, self.chunk = settings["record_bytes"], settings["chunk"]
        self.batch, self.window = settings["batch"], settings["window"]
        self.buffer = EchoBuffer(
            Field((record,), np.uint8),
            batch_size=self.batch,
            window=self.window,
            factor=1,
            device="cuda",
        )
        self.sources = [
            np.full((self.chunk, record), number, np.uint8)
            for number in range(settings["producers"])
        ]
        self.out = place.empty((self.batch, record), np.uint8)
        whole = len(self.sources) * self.chunk
        turns = max(1, settings["total_bytes"] // (record * whole))
        self.turns = -(-turns * whole // self.window) * self.window // whole or 1
        self.put = self.turns * whole
        if self.put % self.batch or self.window % self.chunk:
            raise ValueError(f"{settings}: what is put is not whole batches")
        self._fill()

    def _fill(self) -> None:
        """Keep one window resident, so that draws never wait for its first pass."""
        for _ in range(self.window // self.chunk):
            self.buffer.put_batch(self.sources[0])
        # So the last draw of a run is one of the last window's, and waits for it all.
        self.buffer.next_batch(self.out)

    def _produce(self, source: np.ndarray) -> None:
        for _ in range(self.turns):
            self.buffer.put_batch(source)

    def run(self) -> float:
        producers = [
            threading.Thread(target=self._produce, args=(source,))
            for source in self.sources
        ]
        for producer in producers:
            producer.start()
        for _ in range(self.put // self.batch):
            self.buffer.next_batch(self.out, timeout=60)
        for producer in producers:
            producer.join()
        return self.put * self.settings["record_bytes"] / GB

    def check(self) -> None:
        before = self.buffer.stats().served
        self.run()
        served = self.buffer.stats().served - before
        if served != self.put:
            raise AssertionError(f"{served} draws for {self.put} examples")

    def close(self) -> None:
        self.buffer.__exit__(None, None, None)


QUESTIONS = (
    Question(
        name="gpu_upload",
        aim="0.9 of a copy from pinned memory",
        unit="gigabyte",
        reference="pinned copy",
        candidates=(
            Candidate("pinned copy", Pinned),
            Candidate("copy from ordinary memory", Pinned, {"pageable": True}),
            *(
                Candidate(f"echobuf put_batch, producers: {n}", Put, {"producers": n})
                for n in (1, 2, 4, 8)
            ),
        ),
        clock="wall",
        settings={
            "record_bytes": 150_528,
            "chunk": 128,
            "batch": 1024,
            "window": 8192,
            "total_bytes": 2_400_000_000,
        },
        tiny={
            "record_bytes": 100,
            "chunk": 8,
            "batch": 16,
            "window": 64,
            "total_bytes": 20_000,
        },
        rounds=9,
        limit_s=25,
    ),
)

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
