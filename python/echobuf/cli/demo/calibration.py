"""Measures t_upstream and t_downstream, and sets the bandwidth for the R wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

import torch

from echobuf.cli.demo.data import SIDE
from echobuf.cli.demo.model import Model
from echobuf.cli.demo.outcome import Costs
from echobuf.cli.demo.serving import ServerProcess
from echobuf.cli.demo.task import Task

__all__ = ["calibrate", "next_bandwidth"]

_FIRST_GUESS = 100e3  # bytes/s
_ROUNDS = 3
_WARM_UP_STEPS = 20
_FEWEST = 4  # examples to count at least, however slow the upstream is


def calibrate(task: Task, server: ServerProcess) -> tuple[Costs, float]:
    """Measures both costs while both sides work, as they do in the runs.

    Args:
        task: The upstream and the model to measure.
        server: Its bandwidth is set, and left at the value returned.

    Returns:
        The costs, and the bandwidth in bytes a second.
    """
    model = task.model()
    step = _training_step(task, model)
    for _ in range(_WARM_UP_STEPS):
        step()
    model.wait()

    def measure(bandwidth: float) -> Costs:
        server.set_bandwidth(bandwidth)
        return _costs(task, model, step)

    given = task.settings.bandwidth_kb_s
    if given is not None:
        return measure(1000.0 * given), 1000.0 * given
    bandwidth = _FIRST_GUESS
    for _ in range(_ROUNDS - 1):
        costs = measure(bandwidth)
        bandwidth = next_bandwidth(bandwidth, costs, task.settings.ratio)
    return measure(bandwidth), bandwidth


def next_bandwidth(bandwidth: float, costs: Costs, ratio: float) -> float:
    """The bandwidth that should bring R to `ratio`, from what another one gave."""
    return bandwidth * costs.ratio / ratio


def _training_step(task: Task, model: Model) -> Callable[[], None]:
    size, device = task.settings.batch_size, task.settings.device
    images = torch.zeros(size, SIDE, SIDE, dtype=torch.uint8, device=device)
    labels = torch.zeros(size, dtype=torch.int64, device=device)
    return lambda: model.step(images, labels)


def _costs(task: Task, model: Model, step: Callable[[], None]) -> Costs:
    with _Counter(task) as counter:
        begin, steps = time.perf_counter(), 0
        while not counter.enough():
            step()
            steps += 1
        model.wait()
        elapsed = time.perf_counter() - begin
    return Costs(counter.mean_s(), elapsed / (steps * task.settings.batch_size))


class _Counter:
    """Runs the upstream on a thread and counts what comes out of it."""

    def __init__(self, task: Task) -> None:
        self._source = task.stream()
        self._least_s = task.settings.calibration_s
        self._times: list[float] = []
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            for _ in self._source:
                self._times.append(time.perf_counter())
                if self._stop.is_set():
                    return
        except Exception as error:
            self._error = error

    def enough(self) -> bool:
        """Whether enough has come; raises what the upstream raised."""
        if self._error is not None:
            raise self._error
        times = self._times
        return len(times) > _FEWEST and times[-1] - times[0] >= self._least_s

    def mean_s(self) -> float:
        """Seconds per example, counted from the first one on."""
        return (self._times[-1] - self._times[0]) / (len(self._times) - 1)

    def __enter__(self) -> _Counter:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if kind is None:  # after Ctrl-C nobody waits for a slow upstream
            self._thread.join()
