"""Windows of rollouts, filled in several ways: each run draws until so many are put."""

from __future__ import annotations

import functools
import itertools
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

PREPARED = 16

Rollout = dict[str, np.ndarray]


def prepared(floats: int) -> list[Rollout]:
    """Return rollouts that tell their number, in place of making some."""
    numbers = np.arange(PREPARED, dtype=np.float32)
    return [
        {"steps": np.full(floats, n, np.float32), "reward": np.array(n)}
        for n in numbers
    ]


class Play:
    """Plays one of the rollouts by copying it."""

    def __init__(self, floats: int) -> None:
        self.rollouts = itertools.cycle(prepared(floats))

    def __call__(self, record: Rollout) -> int:
        rollout = next(self.rollouts)
        for name, array in rollout.items():
            record[name][...] = array
        return 0


class Rollouts:
    """A map-style dataset without an end."""

    def __init__(self, floats: int) -> None:
        self.rollouts = prepared(floats)

    def __getitem__(self, index: int) -> Rollout:
        return self.rollouts[index % PREPARED]


class Endless:
    """A sampler without an end."""

    def __iter__(self) -> Iterator[int]:
        return itertools.count()


def spec_of(floats: int) -> dict[str, Any]:
    """Return the spec of a window."""
    from echobuf import Field

    return {"steps": Field(floats, np.float32), "reward": Field((), np.float32)}


class Drawing(ABC):
    """Draws batches, until as many have been drawn as `rollouts` give."""

    guarantees: tuple[tuple[str, str], ...] = (
        ("exact use", "as often as the factor says"),
        ("shuffled", "passes over the window"),
        ("duplicates in a batch", "none"),
        ("batch", "copied; the caller's"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.floats, self.batch = settings["floats"], settings["batch"]
        self.draws = settings["rollouts"] * settings["factor"]
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Start what fills the window."""

    @abstractmethod
    def draw(self) -> Any:
        """Return a batch."""

    def warm_up(self) -> None:
        """Check that batches are whole, and fill the window."""
        for _ in range(self.settings["window"] // self.batch):
            batch = self.draw()
            steps = np.asarray(batch["steps"])
            assert steps.shape == (self.batch, self.floats)
            assert (steps == np.asarray(batch["reward"]).reshape(-1, 1)).all()

    def run(self) -> int:
        drawn = 0
        while drawn < self.draws:
            self.draw()
            drawn += self.batch
        return drawn // int(self.settings["factor"])


class Window(Drawing):
    """The same thread puts, whenever no batch is ready."""

    packages = ("numpy", "echobuf")

    def prepare(self) -> None:
        from echobuf import EchoBuffer

        self.spec = spec_of(self.floats)
        self.buffer = EchoBuffer(
            self.spec,
            batch_size=self.batch,
            window=self.settings["window"],
            factor=self.settings["factor"],
            with_info=True,
            prefetch=self.settings.get("prefetch", 0),
        )
        self.rollouts = itertools.cycle(prepared(self.floats))
        self.fill()

    def fill(self) -> None:
        """Start what fills the window."""

    def draw(self) -> Any:
        while not self.buffer.ready():
            self.buffer.put(next(self.rollouts), version=0)
        return self.buffer.next_batch()[0]

    def close(self) -> None:
        self.buffer.close()


class ThreadedWindow(Window):
    """Another thread puts."""

    def fill(self) -> None:
        threading.Thread(target=self.put_all, daemon=True).start()

    def put_all(self) -> None:
        from echobuf import ClosedError

        try:
            for rollout in self.rollouts:
                self.buffer.put(rollout, version=0)
        except ClosedError:
            return

    def draw(self) -> Any:
        return self.buffer.next_batch()[0]


class GeneratedWindow(Window):
    """A process makes rollouts, and a thread puts them."""

    def fill(self) -> None:
        from generators import Generator

        make_play = functools.partial(Play, self.floats)
        self.generator = Generator(self.buffer, self.spec, make_play)
        self.generator.start()

    def draw(self) -> Any:
        return self.buffer.next_batch()[0]

    def close(self) -> None:
        self.buffer.close()
        self.generator.stop()


class Loader(Drawing):
    """A worker process makes rollouts, and writes them into the window."""

    packages = ("numpy", "echobuf")

    def prepare(self) -> None:
        import echobuf

        self.epoch = iter(
            echobuf.EchoLoader(
                Rollouts(self.floats),
                sampler=Endless(),
                num_workers=1,
                batch_size=self.batch,
                window=self.settings["window"],
                factor=self.settings["factor"],
                with_info=True,
            )
        )

    def draw(self) -> Any:
        return next(self.epoch)[0]

    def close(self) -> None:
        del self.epoch


def uses(settings: dict[str, Any]) -> dict[str, Any]:
    """Return how often rollouts are used that a thread puts, from the first on."""
    from echobuf import EchoBuffer, Field

    buffer = EchoBuffer(
        {"number": Field((), np.int64)},
        batch_size=settings["batch"],
        window=settings["window"],
        factor=settings["factor"],
        prefetch=settings["prefetch"],
    )

    def put_all() -> None:
        for number in range(settings["rollouts"]):
            buffer.put({"number": number})
        buffer.close()

    thread = threading.Thread(target=put_all)
    thread.start()
    found: Counter[int] = Counter()
    for batch in buffer:
        found.update(batch["number"].tolist())
    thread.join()
    return count_of_uses(found, settings["rollouts"])


def count_of_uses(found: Counter[int], rollouts: int) -> dict[str, Any]:
    """Return how many rollouts were used how often."""
    counts = Counter(found[number] for number in range(rollouts))
    return {"rollouts": rollouts, "uses": dict(sorted(counts.items()))}
