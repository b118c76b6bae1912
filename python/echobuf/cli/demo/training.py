"""Training runs of the demo: the network, its steps, and the clock.

The clock and the upstream stand still during an evaluation, for all runs alike.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from echobuf.cli.demo.data import SIDE, augment, distortion, enlarge
from echobuf.cli.demo.settings import Condition, Settings
from echobuf.cli.demo.upstream import DigitStream, Gate
from echobuf.torch import EchoLoader

__all__ = ["Clock", "Model", "Point", "Run", "TrainingTask", "train"]

_CHANNELS = (32, 64)
_HIDDEN = 128
_TEST_CHUNK = 64  # stays in the caches, which one large batch does not


class Model:
    """A network with its optimiser.

    Args:
        seed: Seeds the first weights.
        learning_rate: Of stochastic gradient descent.
        momentum: Of stochastic gradient descent.
        device: The device of the computation.
        width: Width of the layers, relative to those of the demo.
    """

    def __init__(
        self,
        seed: int,
        learning_rate: float,
        momentum: float,
        device: str = "cpu",
        width: int = 1,
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._network = _network(width).to(device)
        self._on_gpu = torch.device(device).type == "cuda"
        self._optimiser = torch.optim.SGD(
            self._network.parameters(), lr=learning_rate, momentum=momentum
        )

    def step(self, images: Tensor, labels: Tensor) -> None:
        """Train on one batch: `uint8[n, SIDE, SIDE]` with `int64[n]`."""
        self._optimiser.zero_grad()
        scores = self._network(_normalised(images))
        nn.functional.cross_entropy(scores, labels).backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def wait(self) -> None:
        """Wait until the device has done all steps so far."""
        if self._on_gpu:
            torch.cuda.synchronize()

    @torch.inference_mode()
    def accuracy(self, images: Tensor, labels: Tensor) -> float:
        """Return the share of images that the network classifies correctly."""
        right = 0
        for begin in range(0, len(labels), _TEST_CHUNK):
            chunk = slice(begin, begin + _TEST_CHUNK)
            guesses = self._network(_normalised(images[chunk])).argmax(1)
            right += int((guesses == labels[chunk]).sum())
        return right / len(labels)


def _normalised(images: Tensor) -> Tensor:
    return images.unsqueeze(1).float().div_(255.0).sub_(0.3)


def _network(width: int) -> nn.Module:
    first, second, hidden = (width * size for size in (*_CHANNELS, _HIDDEN))
    side = SIDE // 4
    return nn.Sequential(
        *(nn.Conv2d(1, first, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(second, second, 3, padding=1), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(side * side * second, hidden), nn.ReLU()),
        nn.Linear(hidden, 10),
    )


@dataclass(frozen=True)
class Point:
    """State of a run at one evaluation.

    Attributes:
        seconds: Time on the clock.
        fresh: Fresh examples so far.
        steps: Training steps so far.
        waited_s: Seconds of that spent waiting for the next batch.
        factor: Effective echoing factor: examples trained on per fresh example.
        accuracy: Test accuracy.
        smoothed: Mean of the last evaluations.
        settled: Whether `smoothed` is the mean of enough evaluations.
    """

    seconds: float
    fresh: int
    steps: int
    waited_s: float
    factor: float
    accuracy: float
    smoothed: float
    settled: bool


@dataclass(frozen=True)
class Run:
    """One finished run.

    Attributes:
        condition: The condition of the run.
        reached: Whether it reached the target within its time.
        points: Its evaluations; the last one is the end of the run.
    """

    condition: Condition
    reached: bool
    points: tuple[Point, ...]

    @property
    def end(self) -> Point:
        """Return the last evaluation."""
        return self.points[-1]


def train(
    task: TrainingTask, condition: Condition, seen: Callable[[Point], None]
) -> Run:
    """Train a new model until it reaches the target or its time is over.

    Args:
        task: The parts that are the same in all runs.
        condition: The condition of this run.
        seen: Called with each evaluation, while the clock is stopped.
    """
    return _Runner(task, condition, seen).run()


class _Runner:
    def __init__(
        self, task: TrainingTask, condition: Condition, seen: Callable[[Point], None]
    ) -> None:
        self._task = task
        self._settings = task.settings
        self._condition = condition
        self._seen = seen
        self._model = task.model()
        self._loader = _loader(task, condition)
        self._clock = Clock()
        self._waited_s = 0.0
        self._recent: deque[float] = deque(maxlen=self._settings.smoothing)
        self._points: list[Point] = []

    def run(self) -> Run:
        reached = False
        for step, (images, labels) in enumerate(self._batches(), start=1):
            self._model.step(images, labels)
            expired = self._clock.seconds() > self._settings.budget_s
            if expired or step % self._settings.evaluate_every == 0:
                reached = self._evaluate(step)
            if expired or reached:
                break
        return Run(self._condition, reached, tuple(self._points))

    def _batches(self) -> Iterator[list[Tensor]]:
        source = iter(self._loader)
        while True:
            begin = self._clock.seconds()
            batch = next(source)
            self._waited_s += self._clock.seconds() - begin
            yield batch

    def _evaluate(self, step: int) -> bool:
        self._model.wait()
        seconds = self._clock.seconds()
        with self._clock.stopped(), self._task.gate.closed():
            point = self._point(step, seconds)
            self._points.append(point)
            self._seen(point)
        return point.settled and point.smoothed >= self._settings.target

    def _point(self, step: int, seconds: float) -> Point:
        fresh = self._fresh()
        accuracy = self._model.accuracy(self._task.images, self._task.labels)
        self._recent.append(accuracy)
        return Point(
            seconds=seconds,
            fresh=fresh,
            steps=step,
            waited_s=self._waited_s,
            factor=step * self._settings.batch_size / fresh,
            accuracy=accuracy,
            smoothed=sum(self._recent) / len(self._recent),
            settled=len(self._recent) == self._recent.maxlen,
        )

    def _fresh(self) -> int:
        whole = self._condition.unit == "batch"  # then the buffer counts batches
        size = self._settings.batch_size
        return self._loader.stats().fresh * (size if whole else 1)


def _loader(task: TrainingTask, condition: Condition) -> EchoLoader:
    whole = condition.unit == "batch"
    size = task.settings.batch_size
    return EchoLoader(
        task.upstream(condition),
        batch_size=None if whole else size,
        window=condition.window_batches * (1 if whole else size),
        factor=condition.factor,
        unit=condition.unit,
        seed=task.settings.seed,
        device=task.settings.device,
        transform={0: distortion()} if condition.distorted == "draw" else None,
    )


@dataclass(frozen=True)
class TrainingTask:
    """Parts that are the same in all runs: data, server, model and settings.

    Attributes:
        settings: The settings.
        port: The server's port.
        names: The files to train on.
        images: The test set's images, `uint8[n, SIDE, SIDE]`, on the settings' device.
        labels: The test set's labels, `int64[n]`, there too.
        gate: Stops the upstream during evaluations.
    """

    settings: Settings
    port: int
    names: tuple[str, ...]
    images: Tensor
    labels: Tensor
    gate: Gate = field(default_factory=Gate)

    def model(self) -> Model:
        """Make a model, with the same first weights each time."""
        chosen = self.settings
        return Model(
            chosen.seed,
            chosen.learning_rate,
            chosen.momentum,
            chosen.device,
            chosen.width,
        )

    def stream(self) -> DigitStream:
        """Make a stream of fresh examples, from its beginning."""
        return DigitStream(self.port, self.names, self.settings.seed, self.gate)

    def upstream(self, condition: Condition) -> DataLoader[object]:
        """Make a DataLoader over the stream, as one writes it without echobuf."""
        prepare = augment if condition.distorted == "upstream" else enlarge
        chosen = self.settings
        stream = DigitStream(self.port, self.names, chosen.seed, self.gate, prepare)
        return DataLoader(stream, batch_size=chosen.batch_size, num_workers=0)


class Clock:
    """Clock of a run, which can be stopped.

    Args:
        now: Returns the time in seconds; replaced in tests.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._zero = now()

    def seconds(self) -> float:
        """Return the seconds since the start, without the time it was stopped."""
        return self._now() - self._zero

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock for the length of the `with` block."""
        begin = self._now()
        try:
            yield
        finally:
            self._zero += self._now() - begin
