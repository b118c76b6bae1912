"""The same upstreams in real time: a loader, and sleeps for work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from auto_trial.clock import Run, run_auto
from auto_trial.upstreams import Scenario, Shape, Upstream
from echobuf import EchoLoader
from echobuf.cli.bench.pacing import Pace

NAMES = (
    "steady, R 4",
    "jumps, R 1, 8, 1",
    "Pareto 1.5, R 2",
    "bursts of a window, R 4",
)
WINDOWS = 32


class Slow:
    """Numbers, each of which takes its own time to make."""

    def __init__(self, upstream: Upstream, unit_s: float) -> None:
        self._seconds = (upstream.times * unit_s).tolist()

    def __iter__(self) -> Iterator[np.int64]:
        pace = Pace(0.0)
        called = returned = time.perf_counter()
        for number, seconds in enumerate(self._seconds):
            pace.seconds = seconds
            pace.work(called, returned)
            called = time.perf_counter()
            yield np.int64(number)
            returned = time.perf_counter()


@dataclass(frozen=True)
class Compared:
    """A run on the clock of the wall, or on the virtual one; times in draws."""

    time: float
    waited: float
    factor: float

    @classmethod
    def virtual(cls, run: Run) -> Compared:
        """Of a run on the virtual clock."""
        total = float(run.times[-1])
        return cls(total, run.waited / total, float(run.draws[-1] / run.fresh[-1]))


def run_real(upstream: Upstream, shape: Shape, unit_s: float) -> Compared:
    """One epoch of a loader, a draw taking `unit_s` seconds."""
    loader = EchoLoader(
        Slow(upstream, unit_s),
        batch_size=shape.batch_size,
        window=shape.window,
        factor="auto",
        max_factor=shape.max_factor,
    )
    pace = Pace(shape.batch_size * unit_s)
    start = time.perf_counter()
    waited = 0.0
    epoch = iter(loader)
    while True:
        called = time.perf_counter()
        batch = next(epoch, None)
        returned = time.perf_counter()
        if returned - called > Pace.IDLE_S:
            waited += returned - called
        if batch is None:
            break
        pace.seconds = len(batch) * unit_s
        pace.work(called, returned)
    seconds = time.perf_counter() - start
    stats = loader.stats()
    return Compared(seconds / unit_s, waited / seconds, stats.effective_factor)


def compare(scenarios: list[Scenario], shape: Shape, unit_s: float) -> dict[str, Any]:
    """Both clocks, for the scenarios in `NAMES`."""
    answers = {}
    for scenario in scenarios:
        if scenario.name not in NAMES:
            continue
        upstream = scenario.upstreams(0)[0]
        n = WINDOWS * shape.window
        upstream = Upstream(upstream.times[:n], upstream.stops)
        answers[scenario.name] = {
            "virtual": asdict(Compared.virtual(run_auto(upstream, shape))),
            "real": asdict(run_real(upstream, shape, unit_s)),
        }
    return answers
