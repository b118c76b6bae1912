"""The same upstreams in real time: a loader, and sleeps for work."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from auto_trial.clock import Run, run_auto
from auto_trial.upstreams import Scenario, Shape, Upstream
from echobuf import EchoLoader

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import pacing

NAMES = (
    "steady, R 4",
    "jumps, R 1, 8, 1",
    "Pareto 1.5, R 2",
    "bursts of a window, R 4",
)
WINDOWS = 32
HARNESS_WINDOWS = 4  # of the no-op candidate


@dataclass(frozen=True)
class Compared:
    """A run on the clock of the wall, or on the virtual one; times in draws."""

    time: float
    waited: float
    factor: float

    @classmethod
    def virtual(cls, run: Run) -> Compared:
        """Return the measures of a run on the virtual clock."""
        total = float(run.times[-1])
        return cls(total, run.waited / total, float(run.draws[-1] / run.fresh[-1]))


def paced(upstream: Upstream, unit_s: float) -> pacing.Upstream:
    """Return the upstream in real time."""
    return pacing.Upstream((upstream.times * unit_s).tolist())


def harness(upstream: Upstream, shape: Shape, unit_s: float, factor: float) -> float:
    """Return what the loops cost for a fresh example, in draws."""
    few = Upstream(upstream.times[: HARNESS_WINDOWS * shape.window], upstream.stops)
    draws = round(len(few.times) * factor / shape.batch_size)
    step_s = shape.batch_size * unit_s
    return pacing.harness_s(paced(few, unit_s), draws, step_s) / unit_s


def run_real(upstream: Upstream, shape: Shape, unit_s: float) -> Compared:
    """Run an epoch of a loader, with a draw every `unit_s` seconds."""
    loader = EchoLoader(
        paced(upstream, unit_s),
        batch_size=shape.batch_size,
        window=shape.window,
        factor="auto",
        max_factor=shape.max_factor,
    )
    pace = pacing.PacedWork()
    start = time.perf_counter()
    waited = 0.0
    epoch = iter(loader)
    while True:
        called = time.perf_counter()
        batch = next(epoch, None)
        waited += time.perf_counter() - called
        if batch is None:
            break
        pace.work(len(batch) * unit_s)
    seconds = time.perf_counter() - start
    stats = loader.stats()
    return Compared(seconds / unit_s, waited / seconds, stats.effective_factor)


def compare(scenarios: list[Scenario], shape: Shape, unit_s: float) -> dict[str, Any]:
    """Run the scenarios in `NAMES` on both clocks."""
    answers = {}
    for scenario in scenarios:
        if scenario.name not in NAMES:
            continue
        upstream = scenario.upstreams(0)[0]
        n = WINDOWS * shape.window
        upstream = Upstream(upstream.times[:n], upstream.stops)
        real = run_real(upstream, shape, unit_s)
        answers[scenario.name] = {
            "virtual": asdict(Compared.virtual(run_auto(upstream, shape))),
            "real": asdict(real),
            "harness": harness(upstream, shape, unit_s, real.factor),
        }
    return answers
