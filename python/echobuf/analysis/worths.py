"""The worth of echoes beside their time, by a formula for repeats."""

from __future__ import annotations

import math
from dataclasses import dataclass

from echobuf.analysis import units
from echobuf.analysis.measurements import Estimate
from echobuf.analysis.prediction import Prediction
from echobuf.repeats import ENOUGH, LIFETIME, Repeats


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
    stop, enough = repeats.stop_factor(ratio.mean), repeats.enough_factor(ratio.mean)
    hint = (
        f"A hint: by a formula for repeats, the last echo of factor="
        f"{units.in_code(factor)} is worth {units.times(found.last_echo)} of a fresh "
        f"example. In worth per second, more echoes stop paying at "
        f"{units.times(stop)}, and {units.percent(ENOUGH)} of the most is reached at "
        f"{units.times(enough)}."
    )
    if repeats.epochs > 1:
        hint += (
            f" That is for {repeats.epochs:g} epochs whatever the factor; "
            "with epochs / factor of them, the worth stays as it is without echoing."
        )
    source = (
        "The formula (Muennighoff et al. 2023) was fitted to language models that "
        "repeated whole epochs. Echoes come sooner than epochs, and may teach less."
    )
    if repeats.lifetime != LIFETIME:
        source += f" Here its lifetime is {units.times(repeats.lifetime)} repeats."
    return (hint, source)
