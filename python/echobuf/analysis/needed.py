"""How long to measure until the ratio R is known well enough to advise."""

from __future__ import annotations

import math
from collections.abc import Callable

from echobuf.analysis import formulas
from echobuf.analysis.measurements import Estimate
from echobuf.analysis.reading import student_t

_UNKNOWN = 5  # blocks to wait for where there are too few for an interval
_SPREAD = 0.4  # half-width, relative to the mean, that is supposed of them
_MOST = 10_000.0  # times as long: beyond, no time can be named
_STEP = 1.1


def needed_s(
    seconds: float,
    upstream: Estimate,
    step: Estimate,
    is_known: Callable[[Estimate], bool],
) -> float | None:
    """Return about how many seconds to measure, all in all, until R is known.

    Means and spreads are supposed to stay as they are, so that intervals narrow with
    the root of the time, and with Student's t while they rest on few blocks.

    Args:
        seconds: that were used.
        upstream: t_upstream with its interval.
        step: t_downstream with its interval.
        is_known: whether an estimate of R is enough.

    Returns:
        The seconds, rounded up to two digits; None if no time would be enough.
    """
    times = _STEP
    while times < _MOST:
        ratio = formulas.quotient(_after(upstream, times), _after(step, times))
        if is_known(ratio):
            return _rounded_up(times * seconds)
        times *= _STEP
    return None


def _after(now: Estimate, times: float) -> Estimate:
    """The estimate after so many times as long, with the mean that it has."""
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
