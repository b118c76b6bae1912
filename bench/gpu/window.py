"""echobuf's candidates: draws from a window on the device that is full."""

from __future__ import annotations

from typing import Any

import numpy as np

from ask import Settings
from echobuf import Field
from echobuf.cli.bench.records import Records, check_batch, make_records
from echobuf.loader_buffer import LoaderBuffer
from place import Place

FACTOR = 8


def records_of(place: Place, settings: Settings) -> Records:
    """Return the records of a question, on the host."""
    key = f"records {settings['fields']} {settings['records']}"
    return place.once(key, lambda: _records(settings))


def _records(settings: Settings) -> Records:
    records = make_records(settings)
    if settings.get("distinct"):
        for leaf in records.values():
            lighten(leaf)
    return records


def lighten(images: Any) -> None:
    """Lighten bytes by up to 127, records more and more: the noise in them repeats."""
    count = len(images)
    steps = (np.arange(count) * 128 // count).astype(np.uint8)
    images += steps.reshape(-1, *[1] * (images.ndim - 1))


class Window:
    """A buffer whose window is full; what it draws is out of each pass in turn.

    The oldest eighth makes room for fresh records, outside the time, when all that can
    be drawn before has been drawn.
    """

    def __init__(self, place: Place, settings: Settings) -> None:
        self._place = place
        self.settings = settings
        self.records = records_of(place, settings)
        window = settings["records"]
        if window % FACTOR:
            raise ValueError(f"{settings}: uneven segments")
        self.buffer = LoaderBuffer(
            {n: Field(a.shape[1:], a.dtype) for n, a in self.records.items()},
            batch_size=settings["batch"],
            window=window,
            factor=FACTOR,
            device="cuda",
            transform=self.transform(),
        )
        self.out = {
            name: place.empty((settings["batch"], *shape), dtype)
            for name, (shape, dtype) in self.drawn().items()
        }
        self._segment = window // FACTOR
        self._next_segment = 0
        self._sure = 0  # batches that can be drawn before more must be put
        for _ in range(FACTOR):
            self._put_segment()

    def transform(self) -> Any:
        """Return the transform of each example."""
        return None

    def drawn(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Return shape and dtype of an example after the transform."""
        return {n: (a.shape[1:], a.dtype) for n, a in self.records.items()}

    def _put_segment(self) -> None:
        while self.buffer.ready():
            self.buffer.next_batch(self.out)
        start = self._next_segment * self._segment
        self._next_segment = (self._next_segment + 1) % FACTOR
        stop = start + self._segment
        self.buffer.put_batch({n: a[start:stop] for n, a in self.records.items()})
        # One draw of the new pass, which waits for all that was put.
        if self.buffer.ready():
            self.buffer.next_batch(self.out)
        self._place.sync()
        self._sure = FACTOR * self._segment // self.settings["batch"] - 1

    def take(self, batches: int) -> None:
        """Put a segment if fewer than `batches` batches are ready.

        Raises:
            ValueError: so many are never ready, and the last draw would wait for ever.
        """
        if self._sure < batches:
            self._put_segment()
        if self._sure < batches:
            raise ValueError(
                f"{batches} batches in a round, of which only {self._sure} are sure"
            )
        self._sure -= batches

    def close(self) -> None:
        self.buffer.__exit__(None, None, None)


def window_of(
    place: Place, settings: Settings, kind: str, make: type[Window] = Window
) -> Window:
    """Return the window of a question; candidates of a kind share it."""
    key = f"{kind} {settings['fields']} {settings['records']} {settings['batch']}"
    return place.once(key, lambda: make(place, settings))


class Draw:
    """`next_batch()` or, with `"out": True`, `next_batch(out=)`."""

    kind = "eager"
    make: type[Window] = Window

    def __init__(self, place: Place, settings: Settings) -> None:
        self.place = place
        self.settings = settings
        self.window = window_of(place, settings, self.kind, self.make)
        self.batches = int(settings["batches"])

    def check(self) -> None:
        self.begin()
        self.run()
        check_batch(
            self.window.records,
            {n: self.place.to_host(leaf) for n, leaf in self.last.items()},
            self.settings,
        )

    def begin(self) -> None:
        self.window.take(self.batches)

    def facts(self) -> dict[str, Any]:
        return {"bytes_per_unit": sum(leaf.nbytes for leaf in self.window.out.values())}

    def run(self) -> int:
        next_batch = self.window.buffer.next_batch
        out = self.window.out if self.settings.get("out") else None
        batch: Any = None
        for _ in range(self.batches):
            batch = next_batch(out)
        self.last = batch
        return self.batches


class Replay(Draw):
    """The draw in a CUDA graph, which is replayed."""

    kind = "graph"

    def __init__(self, place: Place, settings: Settings) -> None:
        super().__init__(place, settings)
        torch = place.torch
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.window.buffer.next_batch(out=self.window.out)

    def run(self) -> int:
        before_replay, replay = self.window.buffer.before_replay, self.graph.replay
        for _ in range(self.batches):
            before_replay()
            replay()
        self.last = self.window.out
        return self.batches
