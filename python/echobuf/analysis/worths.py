"""The worth of echoes beside their time, by a formula for repeats."""

from __future__ import annotations

import math
from dataclasses import dataclass

from echobuf.analysis import units
from echobuf.analysis.measurements import Estimate
from echobuf.analysis.prediction import Prediction
from echobuf.repeats import ENOUGH, Repeats


@dataclass(frozen=True)
class EchoWorth:
    """Price of a factor's echoes, by `Repeats`, beside the time of a predicted epoch.

    Attributes:
        factor: the echoing factor, a number or "auto".
        worth: fresh examples that an example with its echoes is worth.
        last_echo: fresh examples that the last of them is worth; NaN without echoes.
        worth_per_s: `worth` of all examples over the seconds of the epoch: fresh
            examples per second that would teach as much.
        gain: `worth_per_s` over that of an epoch without echoing in which upstream and
            step overlap perfectly. It is the speed-up of the same steps, times the
            worth of a draw over that of a draw without echoing.
    """

    factor: float | str
    worth: float
    last_echo: float
    worth_per_s: float
    gain: float


def worth_of(prediction: Prediction, repeats: Repeats, count: int) -> EchoWorth:
    """Price the echoes of a predicted epoch of `count` fresh examples."""
    uses, seconds = prediction.effective_factor, prediction.epoch_s
    worth = repeats.worth(uses)
    return EchoWorth(
        factor=prediction.factor,
        worth=worth,
        last_echo=repeats.last_echo(uses),
        worth_per_s=worth * count / seconds if seconds > 0 else math.inf,
        gain=prediction.speedup * repeats.mean_worth(uses) / repeats.worth(1.0),
    )


def worth_advice(
    worths: tuple[EchoWorth, ...],
    factor: float | str,
    ratio: Estimate,
    repeats: Repeats,
) -> tuple[str, ...]:
    """Say in words what the echoes of a factor are worth, and where they stop paying.

    Args:
        worths: prices of factors.
        factor: one of them, the advised one.
        ratio: R with its interval.
        repeats: the price of echoes.
    """
    found = next((each for each in worths if each.factor == factor), None)
    if found is None or math.isnan(found.last_echo):
        return ()
    name = units.in_code(factor)
    stop, enough = repeats.stop_factor(ratio.mean), repeats.enough_factor(ratio.mean)
    line = (
        "A hint, by the formula of Muennighoff et al. for repeats "
        f"({units.times(repeats.lifetime)} repeats, {_epochs(repeats)}): with "
        f"factor={name} an example is worth {units.times(found.worth)} fresh ones, its "
        f"last echo {units.times(found.last_echo)} of one. Per second, more echoes stop "
        f"paying at {units.times(stop)}, and {units.percent(ENOUGH)} of the most is "
        f"reached at {units.times(enough)}."
    )
    fewer = "Language models that repeated whole epochs gave the formula: echoes come "
    return (line, fewer + "sooner than epochs, and may teach less than it says.")


def _epochs(repeats: Repeats) -> str:
    if repeats.epochs == 1:
        return "one epoch"
    return f"{units.number(repeats.epochs)} epochs"
