"""What echoing with a factor would bring: time, steps, speed-up."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from echobuf.analysis import flow, formulas
from echobuf.analysis.flow import Pace
from echobuf.options import check_factor

FACTORS = range(1, 17)
"""Factors that predictions are made for."""


@dataclass(frozen=True)
class Prediction:
    """An epoch with a factor: starting, filling and draining the window included.

    Attributes:
        factor: the echoing factor, a number or "auto".
        effective_factor: examples served over fresh ones in this epoch.
        fresh_s: seconds per fresh example once the window is full,
            max(t_upstream, e * t_downstream).
        epoch_s: seconds for the epoch: every fresh example once from upstream.
        same_steps_s: seconds for as many steps as the epoch has without echoing, which
            is `epoch_s` / `effective_factor`.
        speedup: of `same_steps_s`, over an epoch without echoing in which upstream and
            step overlap perfectly; near min(e, R) if the epoch has many windows.
        wait_share: of the epoch, in which the step waits; from 0 to 1.
    """

    factor: float | str
    effective_factor: float
    fresh_s: float
    epoch_s: float
    same_steps_s: float
    speedup: float
    wait_share: float


def predict(pace: Pace, factor: float | Fraction | str, count: int) -> Prediction:
    """Predicts an epoch of `count` fresh examples.

    Args:
        pace: what goes through the buffer, and how fast.
        factor: as for `EchoBuffer`, and such that it would take it.
        count: fresh examples, at least one.
    """
    exact = check_factor(factor)
    epoch = flow.epoch(pace, exact, count)
    echoes = epoch.draws / count
    overlapped_s = pace.startup_s + count * formulas.fresh_s(
        pace.upstream_s, pace.step_s, 1
    )
    same_steps_s = epoch.seconds / echoes
    busy_s = epoch.draws * pace.step_s
    steady = echoes if exact is None else float(exact)
    return Prediction(
        factor="auto" if exact is None else float(exact),
        effective_factor=echoes,
        fresh_s=formulas.fresh_s(pace.upstream_s, pace.step_s, steady),
        epoch_s=epoch.seconds,
        same_steps_s=same_steps_s,
        speedup=overlapped_s / same_steps_s if same_steps_s > 0 else 1.0,
        wait_share=max(0.0, 1 - busy_s / epoch.seconds) if epoch.seconds > 0 else 0.0,
    )
