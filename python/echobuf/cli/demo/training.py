"""One run: train to the target under one condition, with a clock that is fair.

The clock and the upstream stand still during an evaluation, for all runs alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from echobuf.cli.demo.data import distortion
from echobuf.cli.demo.settings import Condition
from echobuf.cli.demo.task import Clock, Task
from echobuf.torch import EchoLoader

__all__ = ["Point", "Run", "train"]


@dataclass(frozen=True)
class Point:
    """Where a run stood at one evaluation.

    Attributes:
        seconds: Time on the clock.
        fresh: Fresh examples so far.
        steps: Training steps so far.
        waited_s: Seconds of that spent waiting for the next batch.
        factor: Effective echoing factor: examples trained on per fresh example.
        accuracy: Test accuracy.
        smoothed: Mean of the last evaluations.
        settled: Whether there have been enough evaluations for that mean to count.
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
        condition: How it was fed.
        reached: Whether it reached the target within its time.
        points: Its evaluations; the last one is where it ended.
    """

    condition: Condition
    reached: bool
    points: tuple[Point, ...]

    @property
    def end(self) -> Point:
        """Where the run ended: at the target, if it was reached."""
        return self.points[-1]


def train(task: Task, condition: Condition, seen: Callable[[Point], None]) -> Run:
    """Trains a new model until it reaches the target or its time is over.

    Args:
        task: What is the same in all runs.
        condition: How this run is fed.
        seen: Called with each evaluation, off the clock.
    """
    return _Runner(task, condition, seen).run()


class _Runner:
    def __init__(
        self, task: Task, condition: Condition, seen: Callable[[Point], None]
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


def _loader(task: Task, condition: Condition) -> EchoLoader:
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
