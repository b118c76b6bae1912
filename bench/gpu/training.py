"""End to end: a convolutional network in bf16 on uint8 images, with a slow upstream.

R = 6: an example takes upstream six times what it takes downstream, measured here
first. With e = 5 the ideal is five times the steps of training without echoing. And
with an upstream that is fast enough: what a step takes over one on a resident batch.
"""

from __future__ import annotations

import queue
import statistics
import sys
import threading
import time
from abc import ABC, abstractmethod
from typing import Any

from ask import Candidate, Question, Settings
from echobuf import EchoBuffer, Field
from network import images_of, network_of
from paced import Paced
from place import Place
from script import main


class Training(ABC):
    """Steps of the network on images."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self.place, self.settings = place, settings
        self.batch = settings["batch"]
        self.records = images_of(place, settings)
        self.network = network_of(place)
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make the objects that last for all rounds."""


class Fed(Training):
    """Steps on batches that `upstream`, which `prepare` makes, brings about.

    Its clock stands between two runs, so that each begins as the one before it ended.
    """

    upstream: Paced

    @abstractmethod
    def step(self) -> None:
        """Train on the next batch."""

    def run(self) -> int:
        self.upstream.go_on()
        for _ in range(self.settings["steps"]):
            self.step()
        self.place.sync()
        self.upstream.pause()
        return int(self.settings["steps"])


class Resident(Training):
    """Steps on one batch that stays on the device."""

    def prepare(self) -> None:
        self.tensors = [
            self.network.tensor(self.place.resident(leaf[: self.batch]))
            for leaf in self.records.values()
        ]

    def run(self) -> int:
        for _ in range(self.settings["steps"]):
            self.network.step(*self.tensors)
        return int(self.settings["steps"])


def step_s(place: Place, settings: Settings) -> float:
    """Time a step: the median of five runs on a resident batch."""

    def measure() -> float:
        work = Resident(place, settings)
        runs = [place.timed("wall", work.run) for _ in range(6)]
        return statistics.median(seconds / steps for seconds, steps in runs[1:])

    return place.once(f"step {settings['batch']}", measure)


def upstream_s(place: Place, settings: Settings) -> float:
    """Return the time of an example upstream."""
    if not settings["ratio"]:
        return 0.0
    if place.simulated:
        return 1e-5
    return settings["ratio"] * step_s(place, settings) / settings["batch"]


class Echoing(Fed):
    """Upstream puts; each batch is drawn on the device, each example e times.

    A run is whole passes.
    """

    def prepare(self) -> None:
        settings = self.settings
        self.buffer = EchoBuffer(
            {n: Field(a.shape[1:], a.dtype) for n, a in self.records.items()},
            batch_size=self.batch,
            window=settings["window"],
            factor=settings["factor"],
            device="cuda",
        )
        if settings["steps"] * self.batch % settings["window"]:
            raise ValueError(f"{settings}: a run is not whole passes")
        self.upstream = Paced(
            self.records,
            settings["chunk"],
            self.buffer.put_batch,
            upstream_s(self.place, settings),
        )
        for _ in range(2 * settings["window"] // self.batch):  # the window fills
            self.step()
        self.place.sync()
        self.upstream.pause()
        self.before = self.buffer.stats()

    def step(self) -> None:
        batch = self.buffer.next_batch(timeout=60)
        tensor = self.network.tensor
        self.network.step(tensor(batch["image"]), tensor(batch["label"]))

    def facts(self) -> dict[str, Any]:
        before, after = self.before, self.buffer.stats()
        record = sum(leaf[0].nbytes for leaf in self.records.values())
        draws = after.served - before.served
        fresh = record * self.batch * (after.fresh - before.fresh)
        return {
            "ratio": self.settings["ratio"],
            "effective_factor": draws / max(1, after.fresh - before.fresh),
            "bus_bytes_per_step": fresh / max(1, draws),
            "upstream_error": repr(self.upstream.error),
        }

    def close(self) -> None:
        self.upstream.go_on()
        self.buffer.__exit__(None, None, None)  # a put that waits ends
        self.upstream.end()


class NoEchoing(Fed):
    """Batches come as upstream has them, are copied once, and trained on once."""

    def prepare(self) -> None:
        self.ready: queue.Queue[Any] = queue.Queue(2)
        self.upstream = Paced(
            self.records, self.batch, self._load, upstream_s(self.place, self.settings)
        )
        self.step()
        self.upstream.pause()

    def _load(self, batch: dict[str, Any]) -> None:
        if not self.place.simulated:
            torch = self.place.torch
            batch = {n: torch.from_numpy(a).pin_memory() for n, a in batch.items()}
        self.ready.put(batch)

    def step(self) -> None:
        batch = self.ready.get(timeout=60)
        if not self.place.simulated:
            batch = {n: t.to("cuda", non_blocking=True) for n, t in batch.items()}
        self.network.step(batch["image"], batch["label"])

    def close(self) -> None:
        self.upstream.go_on()
        while not self.ready.empty():
            self.ready.get_nowait()
        self.upstream.end()


class Harness(Fed):
    """The no-op candidate: chunks that are counted in place of put, and no network.

    Its time for a step is upstream's for a batch, and what the harness costs.
    """

    def prepare(self) -> None:
        settings = self.settings
        self.there = threading.Semaphore(0)
        self.cost_s = upstream_s(self.place, settings)
        self.upstream = Paced(self.records, settings["chunk"], self._count, self.cost_s)
        self.seconds = 0.0
        self.steps = 0
        self.upstream.pause()

    def _count(self, chunk: dict[str, Any]) -> None:
        self.there.release()

    def run(self) -> int:
        begin = time.perf_counter()
        steps = super().run()
        self.seconds += time.perf_counter() - begin
        self.steps += steps
        return steps

    def step(self) -> None:
        for _ in range(self.batch // self.settings["chunk"]):
            self.there.acquire()

    def facts(self) -> dict[str, Any]:
        bare_s = self.cost_s * self.batch
        return {"harness_s": self.seconds / max(1, self.steps) - bare_s}

    def close(self) -> None:
        self.upstream.go_on()
        self.upstream.end()


SETTINGS = {"side": 160, "records": 5120, "window": 2560, "factor": 5, "chunk": 32}
TINY = {"side": 4, "records": 80, "batch": 8, "window": 40, "chunk": 8, "steps": 10}
_SLOW = {"ratio": 6}
QUESTIONS = (
    Question(
        name="gpu_training",
        aim="R = 6, e = 5: 4.85 times no echoing; upstream fast: 0.99 of resident",
        unit="step",
        reference="no echoing, R = 6",
        candidates=(
            Candidate("no echoing, R = 6", NoEchoing, {**_SLOW, "steps": 10}),
            Candidate("echobuf e = 5, R = 6", Echoing, _SLOW),
            Candidate("the harness, R = 6", Harness, {**_SLOW, "steps": 10}),
            Candidate("one resident batch", Resident, reference="one resident batch"),
            Candidate(
                "echobuf e = 5, upstream fast",
                Echoing,
                {"ratio": 0},
                reference="one resident batch",
            ),
        ),
        clock="wall",
        settings={**SETTINGS, "batch": 256, "steps": 50},
        tiny=TINY,
        rounds=7,
        limit_s=35,
    ),
)

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
