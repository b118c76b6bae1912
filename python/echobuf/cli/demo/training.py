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

_CHANNELS = (32, 64)
_HIDDEN = 128
_TEST_CHUNK = 64  # stays in the caches, which one large batch does not


class Model:
    """A network of layers `width` times as wide as the demo's, with its optimiser."""

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
    """State of a run at one evaluation."""

    seconds: float  # on the clock
    fresh: int  # examples so far
    steps: int
    waited_s: float  # of `seconds`, for the next batch
    factor: float  # examples trained on per fresh example
    accuracy: float  # on the test set
    smoothed: float  # mean of the last evaluations
    settled: bool  # whether these are enough


@dataclass(frozen=True)
class Run:
    """One finished run, and whether it reached the target within its time."""

    condition: Condition
    reached: bool
    points: tuple[Point, ...]  # its evaluations

    @property
    def end(self) -> Point:
        """Return the last evaluation, which is the end of the run."""
        return self.points[-1]


@dataclass(frozen=True)
class TrainingTask:
    """Parts that are the same in all runs: data, server, model and settings."""

    settings: Settings
    port: int  # of the server
    names: tuple[str, ...]  # of the files to train on
    images: Tensor  # of the test set, `uint8[n, SIDE, SIDE]`, on the settings' device
    labels: Tensor  # of the test set, `int64[n]`, there too
    gate: Gate = field(default_factory=Gate)  # stops the upstream during evaluations

    def model(self) -> Model:
        """Make a model, with the same first weights each time."""
        of = self.settings
        return Model(of.seed, of.learning_rate, of.momentum, of.device, of.width)

    def stream(self, *, distorted: bool = True) -> DigitStream:
        """Make a stream of fresh examples, from its beginning."""
        prepare = augment if distorted else enlarge
        seed = self.settings.seed
        return DigitStream(self.port, self.names, seed, self.gate, prepare)

    def loader(self, condition: Condition) -> EchoLoader:
        """Wrap a DataLoader over the stream, as one writes it without echobuf."""
        chosen = self.settings
        size, whole = chosen.batch_size, condition.unit == "batch"
        in_draw = condition.distorted == "draw"
        stream = self.stream(distorted=not in_draw)
        return EchoLoader(
            DataLoader(stream, batch_size=size, num_workers=0),
            batch_size=None if whole else size,
            window=condition.window_batches * (1 if whole else size),
            factor=condition.factor,
            unit=condition.unit,
            seed=chosen.seed,
            device=chosen.device,
            transform={0: distortion()} if in_draw else None,
        )


def train(
    task: TrainingTask, condition: Condition, seen: Callable[[Point], None]
) -> Run:
    """Train a new model until it reaches the target or its time is over.

    `seen` is called with each evaluation, while the clock is stopped.
    """
    settings, model = task.settings, task.model()
    loader, clock = task.loader(condition), Clock()
    batches = iter(loader)
    # The buffer counts whole batches with unit="batch".
    unit = settings.batch_size if condition.unit == "batch" else 1
    recent: deque[float] = deque(maxlen=settings.smoothing)
    points: list[Point] = []
    waited_s, step = 0.0, 0

    def evaluate() -> bool:
        model.wait()
        seconds = clock.seconds()
        with clock.stopped(), task.gate.closed():
            fresh = loader.stats().fresh * unit
            accuracy = model.accuracy(task.images, task.labels)
            recent.append(accuracy)
            point = Point(
                seconds=seconds,
                fresh=fresh,
                steps=step,
                waited_s=waited_s,
                factor=step * settings.batch_size / fresh,
                accuracy=accuracy,
                smoothed=sum(recent) / len(recent),
                settled=len(recent) == recent.maxlen,
            )
            points.append(point)
            seen(point)
        return point.settled and point.smoothed >= settings.target

    reached = expired = False
    while not (reached or expired):
        begin = clock.seconds()
        images, labels = next(batches)
        waited_s += clock.seconds() - begin
        step += 1
        model.step(images, labels)
        expired = clock.seconds() > settings.budget_s
        if expired or step % settings.evaluate_every == 0:
            reached = evaluate()
    return Run(condition, reached, tuple(points))


class Clock:
    """Clock of a run, which can be stopped; tests replace `now`."""

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
