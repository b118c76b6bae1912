"""Which factor, why, and what goes with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from echobuf.analysis import formulas, units
from echobuf.analysis.measurements import Estimate, Measurements
from echobuf.analysis.others import storage_s

WORTH = 1.05
"""The smallest speed-up for which echoing is advised."""

_SURE = 1.3  # upper over lower end of R's interval, up to which a number is advised


@dataclass(frozen=True)
class Advice:
    """A factor to use, and the reason.

    Attributes:
        factor: a number >= 1 (1: do not echo), or "auto".
        why: one sentence.
    """

    factor: float | str
    why: str


def advise(
    measured: Measurements, ratio: Estimate, speedup: Callable[[float | str], float]
) -> Advice:
    """Which factor to use.

    Args:
        measured: what was measured.
        ratio: R with its interval.
        speedup: what is predicted for a factor.
    """
    shown = f"R = {units.times(ratio.mean)}"
    if (cold := _cold_ratio(measured, ratio)) is not None:
        shown += f" with warm caches ({units.times(cold)} in the first pass)"
    if ratio.low <= 1 and max(ratio.mean, ratio.high) > WORTH:
        ends = f"{units.times(ratio.low)} to {units.times(ratio.high)}"
        why = f"{shown} ({ends}) is too near 1 to tell; measure for longer"
        return Advice(1.0, why)
    if ratio.low <= 1:
        return Advice(1.0, f"{shown}, upstream keeps up with the step")
    factor, why = _choose(measured, ratio)
    gain = speedup(factor)
    if gain < WORTH:
        return Advice(1.0, f"{shown}, but {_too_little(measured, ratio)}")
    return Advice(factor, why)


def _cold_ratio(measured: Measurements, ratio: Estimate) -> float | None:
    """R of the first pass, if that is above 1 and later ones are not."""
    first = formulas.quotient(measured.upstream_first_s, measured.step_s)
    if storage_s(measured) > 0 and first.low > 1 >= ratio.low:
        return first.mean
    return None


def of_caches(measured: Measurements, ratio: Estimate) -> tuple[str, ...]:
    """What the two passes say of epochs to come, where that is not plain."""
    if (cold := _cold_ratio(measured, ratio)) is not None:
        return (
            "The result is that of warm caches: the second pass read what the first "
            f"had left in memory. R of the first pass was {units.times(cold)}; if the "
            "data set does not fit in memory, epochs are like that one, the step waits "
            'in them, and factor="auto" pays.',
        )
    if measured.upstream_second_s and not storage_s(measured) and ratio.low > 1:
        return (
            "The first pass took no longer than the second: either nothing was cached "
            "in between, or there is nothing to gain by it. What a cache or faster "
            "storage would bring cannot be told from that.",
        )
    return ()


def _choose(measured: Measurements, ratio: Estimate) -> tuple[float | str, str]:
    if min(measured.max_factor, measured.window) < 2:
        return "auto", "`max_factor` and `window` leave nothing else"
    if storage_s(measured) > 0:
        return (
            "auto",
            "R differs between passes, and auto follows it",
        )
    most = min(measured.max_factor, measured.window)
    if ratio.low >= most:
        name = "max_factor" if most == measured.max_factor else "window"
        return float(most), f"R is above `{name}`, {most}"
    if ratio.high > _SURE * ratio.low:
        return "auto", "R is not known well: auto finds it"
    factor = _below(min(ratio.mean, most), measured)
    if factor <= 1:
        return "auto", "R is close to 1: auto keeps to it"
    return factor, "as near below R as a simple number comes: no fresh example is lost"


def _below(ratio: float, measured: Measurements) -> float:
    """A factor at or below R that the window takes: whole, or a half, or a tenth."""
    step = 2 if ratio >= 2 else 10
    factor = math.floor(ratio * step + 1e-9) / step
    if factor == int(factor):
        return factor
    records = measured.window // math.ceil(factor)
    fits = measured.batch_size <= math.floor(factor) * records
    return factor if fits else float(math.floor(factor))


def _too_little(measured: Measurements, ratio: Estimate) -> str:
    ideal = formulas.speedup(
        ratio.mean, formulas.effective_factor(ratio.mean, measured.max_factor)
    )
    if ideal < WORTH:
        return f"echoing could bring a speed-up of {ideal:.2f} at most"
    return (
        f"filling a window of {units.count(measured.window)} takes too much of an "
        "epoch: make `window` smaller, or try `overlap_epochs`"
    )


def consequences(factor: float | str, ratio: Estimate) -> tuple[str, ...]:
    """What else changes with the factor, one sentence or two each."""
    if factor == 1:
        return ()
    times = units.times(ratio.mean) if factor == "auto" else units.factor(factor)
    about = "about " if factor == "auto" else ""
    return (
        f"An epoch, each fresh example once, then has {about}{times} times as many "
        "steps. Schedules of the learning rate, evaluations and checkpoints that are "
        "counted in epochs come later by as much: count them in steps.",
        "Learning rate and regularisation may need retuning, as examples come "
        f"{about}{times} times. Steps on echoed examples teach less than steps on "
        "fresh ones: the speed-up above is the most that the time to a target can "
        "gain.",
        "Augment behind the buffer (`transform=`), and each echo is augmented anew.",
    )
