"""The factor to use, the reason, and the consequences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from echobuf.analysis import cost_model, units
from echobuf.analysis.measurements import Estimate, Measurements
from echobuf.analysis.prediction import FACTORS, EchoWorth
from echobuf.analysis.timing import student_t
from echobuf.repeats import ENOUGH, LIFETIME, Repeats

WORTH = 1.05
"""The smallest speed-up for which echoing is advised."""

TIE = 0.97
"""Factors whose speed-up is at least that part of the best are as good as it."""

_SURE = 1.3  # largest upper over lower end of R's interval for advising a number
_ABOVE = 1 + 1e-9  # rounding error of R


@dataclass(frozen=True)
class Advice:
    """A factor to use, and the reason, one sentence without its full stop.

    `decided` says whether R is known well enough to advise a factor; `needed_s` is the
    estimated seconds of measuring until it is, None if no time would be enough.
    """

    factor: float | str
    reason: str
    decided: bool = True
    needed_s: float | None = None


def advise(
    measured: Measurements, ratio: Estimate, speedup: Callable[[float | str], float]
) -> Advice:
    """Choose the factor to use, by R and the predicted speed-up of each factor."""
    shown = f"R = {units.times(ratio.mean)}"
    if (cold := _cold_ratio(measured, ratio)) is not None:
        shown += f" with warm caches ({units.times(cold)} in the first pass)"
    if not _is_known(ratio):
        return _undecided(measured, ratio, shown)
    if ratio.low <= 1:
        return Advice(1.0, f"{shown}, upstream keeps up with the step")
    factor, reason = _choose(measured, ratio, speedup)
    if speedup(factor) < WORTH:
        return Advice(1.0, f"{shown}, but {_too_little(measured, ratio)}")
    return Advice(factor, reason)


def _is_known(ratio: Estimate) -> bool:
    """Return whether all of R's interval is above 1, or all of it too low to echo."""
    return ratio.low > 1 or max(ratio.mean, ratio.high) <= WORTH


def _undecided(measured: Measurements, ratio: Estimate, shown: str) -> Advice:
    ends = f"{units.times(ratio.low)} to {units.times(ratio.high)}"
    needed = needed_s(measured.seconds, measured.upstream_s, measured.step_s, _is_known)
    longer = "longer" if needed is None else f"about {units.seconds(needed)}"
    after = f" after {units.seconds(measured.seconds)}" if measured.seconds else ""
    reason = (
        f"{shown}, but it may be {ends}{after}, too wide to say whether it is above 1; "
        f"measure for {longer}"
    )
    return Advice(1.0, reason, decided=False, needed_s=needed)


def _cold_ratio(measured: Measurements, ratio: Estimate) -> float | None:
    """Return R of the first pass, if that is above 1 and R of later passes is not."""
    first = cost_model.quotient(measured.upstream_first_s, measured.step_s)
    if measured.storage_s > 0 and first.low > 1 >= ratio.low:
        return first.mean
    return None


# ---- the choice


def candidates(measured: Measurements, ratio: Estimate) -> tuple[float | str, ...]:
    """Return the factors to choose from: whole ones, the one next below R, and "auto".

    Factors above R are left out, since further echoes then take the place of fresh
    examples, and so are factors above `max_factor` or `window`.
    """
    most = measured.most
    end = min(ratio.mean * _ABOVE, most)
    numbers = {float(e) for e in FACTORS if 2 <= e <= end}
    if ratio.mean > 1 and most >= 2:
        numbers.add(_below(min(ratio.mean, most), measured))
    return (*sorted(e for e in numbers if e > 1), "auto")


def _choose(
    measured: Measurements,
    ratio: Estimate,
    speedup: Callable[[float | str], float],
) -> tuple[float | str, str]:
    """Return the best candidate and the reason; of equals, the one that echoes least.

    "auto" is preferred to numbers where R varies, and numbers elsewhere.
    """
    names = candidates(measured, ratio)
    gains = {name: speedup(name) for name in names}
    best = max(gains.values())
    good = [name for name in names if gains[name] >= TIE * best]
    if "auto" in good:
        reason = _reason_for_auto(measured, ratio, alone=len(names) == 1)
        if reason is not None:
            return "auto", reason
    if good[0] == "auto":
        return "auto", "it follows R, and begins before the window is full"
    return good[0], _reason_for_number(measured, ratio, good[0])


def _reason_for_auto(
    measured: Measurements, ratio: Estimate, *, alone: bool
) -> str | None:
    """Return the reason for "auto", as good as any number; None for a number."""
    if measured.most < 2:
        return "`max_factor` and `window` leave nothing else"
    if measured.storage_s > 0:
        return "R differs between passes, and auto follows it"
    if ratio.low >= measured.most:
        return None
    if ratio.high > _SURE * ratio.low:
        return "R is not known well: auto finds it"
    return "R is close to 1: auto keeps to it" if alone else None


def _reason_for_number(
    measured: Measurements, ratio: Estimate, factor: float | str
) -> str:
    most = measured.most
    if factor == most and ratio.low >= most:
        name = "max_factor" if most == measured.max_factor else "window"
        return f"R is above `{name}`, {most}"
    if factor == _below(min(ratio.mean, most), measured):
        return "as near below R as a simple number comes: no fresh example is lost"
    return "further echoes would bring next to nothing"


def _below(ratio: float, measured: Measurements) -> float:
    """Return the largest factor up to R that fits the window, in halves or tenths."""
    step = 2 if ratio >= 2 else 10
    factor = math.floor(ratio * step + 1e-9) / step
    if factor == int(factor):
        return factor
    records = measured.window // math.ceil(factor)
    fits = measured.batch_size <= math.floor(factor) * records
    return factor if fits else float(math.floor(factor))


def _too_little(measured: Measurements, ratio: Estimate) -> str:
    factor = cost_model.effective_factor(ratio.mean, measured.max_factor)
    ideal = cost_model.speedup(ratio.mean, factor)
    if ideal < WORTH:
        return f"echoing could bring a speed-up of {ideal:.2f} at most"
    return (
        f"filling a window of {units.count(measured.window)} takes too much of an "
        "epoch: make `window` smaller, or try `overlap_epochs`"
    )


# ---- in words


def cache_advice(measured: Measurements, ratio: Estimate) -> tuple[str, ...]:
    """Explain a difference, or none, between the two passes of upstream."""
    if (cold := _cold_ratio(measured, ratio)) is not None:
        return (
            "The result is that of warm caches: the second pass read what the first "
            f"had left in memory. R of the first pass was {units.times(cold)}; if the "
            "data set does not fit in memory, epochs are like that one, the step waits "
            'in them, and factor="auto" pays.',
        )
    if measured.upstream_second_s and not measured.storage_s and ratio.low > 1:
        return (
            "The first pass took no longer than the second: either nothing was cached "
            "in between, or there is nothing to gain by it. What a cache or faster "
            "storage would bring cannot be told from that.",
        )
    return ()


def consequences(factor: float | str, ratio: Estimate) -> tuple[str, ...]:
    """List the consequences of a factor for training, one or two sentences each."""
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


def worth_advice(
    price: EchoWorth, ratio: Estimate, repeats: Repeats
) -> tuple[str, ...]:
    """Say what the echoes of the advised factor are worth, and where they stop paying.

    Nothing is said of a factor without echoes.
    """
    if math.isnan(price.last_echo):
        return ()
    stop, enough = repeats.stop_factor(ratio.mean), repeats.enough_factor(ratio.mean)
    hint = (
        f"A hint: by a formula for repeats, the last echo of factor="
        f"{units.in_code(price.factor)} is worth {units.times(price.last_echo)} of a "
        f"fresh example. In worth per second, more echoes stop paying at "
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


def ragged_advice(measured: Measurements, advised: int | None) -> tuple[str, ...]:
    """Say how long examples are, and the `payload_bytes` that is advised, if any."""
    lengths = measured.ragged
    if lengths is None or advised is None:
        return ()
    line = (
        f"Ragged leaves of an example have {units.number(lengths.mean_rows)} rows and "
        f"{units.size(round(lengths.mean_bytes))} in the mean of "
        f"{units.count(lengths.examples)}, and {units.size(lengths.largest_bytes)} at "
        f"most: payload_bytes={advised:_} is enough for a window of "
        f"{units.count(measured.window)}."
    )
    given = lengths.arguments["payload_bytes"]
    if given is not None and given < measured.window * lengths.mean_bytes:
        held = max(1, int(given / lengths.mean_bytes))
        line += (
            f" The loader's payload_bytes={given:_} holds about {units.count(held)} "
            "of them."
        )
    return (line,)


# ---- how long to measure

_UNKNOWN = 5  # blocks to wait for where there are too few for an interval
_SPREAD = 0.4  # assumed half-width of their interval, relative to the mean
_MOST = 10_000.0  # longest extension of the measurement to search
_STEP = 1.1


def needed_s(
    seconds: float,
    upstream: Estimate,
    step: Estimate,
    is_known: Callable[[Estimate], bool],
) -> float | None:
    """Estimate the seconds of measuring, all in all, until R is known.

    Assumes that means and spreads stay as they are, so that intervals narrow with the
    root of the time, and with Student's t while they rest on few blocks. The result is
    rounded up to two digits; None if no time would be enough.
    """
    times = _STEP
    while times < _MOST:
        ratio = cost_model.quotient(_after(upstream, times), _after(step, times))
        if is_known(ratio):
            return _rounded_up(times * seconds)
        times *= _STEP
    return None


def _after(now: Estimate, times: float) -> Estimate:
    """Return the estimate expected after `times` as long, with the same mean."""
    blocks = max(1, now.blocks)
    later = blocks * times
    if blocks < 2:
        if later < _UNKNOWN:
            return now
        down = up = _SPREAD * now.mean * math.sqrt(_UNKNOWN / later)
    else:
        narrower = math.sqrt(blocks / later)
        narrower *= student_t(max(1, int(later) - 1)) / student_t(blocks - 1)
        down = (now.mean - now.low) * narrower
        up = (now.high - now.mean) * narrower
    return Estimate(now.mean, now.mean - down, now.mean + up, now.count, now.blocks)


def _rounded_up(seconds: float) -> float | None:
    if not (math.isfinite(seconds) and seconds > 0):
        return None
    digit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return float(f"{math.ceil(seconds / digit - 1e-9) * digit:.3g}")
