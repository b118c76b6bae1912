"""`Repeats`: the worth of an example that is used repeatedly, in fresh examples.

Source: Muennighoff et al. 2023, "Scaling Data-Constrained Language Models"
(arXiv:2305.16264), section 3.1 and appendix A: D' = U + U R* (1 - exp(-R / R*)), where
U unique tokens are repeated R times, and D' unique tokens would teach as much.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

from echobuf.arguments import check_number
from echobuf.errors import OptionError, show

LIFETIME = 15.387756
"""R_D* of Muennighoff et al., appendix A: fitted to language models of 7 M to 9 B
parameters that were trained on C4 for 1 to 500 epochs."""

ENOUGH = 0.97
"""That part of the most that any factor brings counts as all of it."""


@dataclass(frozen=True)
class Repeats:
    """Price of echoes: the fresh examples that an example is worth when it repeats.

    A model for orientation, not a rule. An example that is used u times is worth
    1 + L (1 - exp(-(u - 1) / L)) fresh examples, where L is `lifetime` (Muennighoff et
    al. 2023, arXiv:2305.16264, who call it R_D*). It was fitted to language models
    and to repeats of whole epochs. Echoes come sooner than epochs do, and other models
    and augmentation change what a repeat teaches.

    With `epochs`, an example is used epochs * factor times: the model prices an echo
    as it prices an epoch.

    Args:
        epochs: epochs that the training has, >= 1.
        lifetime: L >= 0, the number of repeats after which a further one is worth 1/e
            of the first; 0 if repeats are worth nothing, and `math.inf` if they are
            worth as much as fresh examples.

    Raises:
        OptionError: an argument is out of range.

    Examples:
        >>> from echobuf.analysis import Repeats
        >>> repeats = Repeats()
        >>> round(repeats.worth(4), 2)  # fresh examples that four uses are worth
        3.73
        >>> round(repeats.last_echo(4), 2)  # and the last of them
        0.85
        >>> round(repeats.mean_worth(4), 2)  # each of them, on average
        0.93
        >>> repeats.stop_factor(6.5), round(repeats.enough_factor(6.5), 1)
        (6.5, 6.3)
        >>> round(Repeats(epochs=30).enough_factor(6.5), 1)  # seen often enough
        1.8
        >>> slower = Repeats.fitted(4, 2.0)  # with factor=4, half the fresh examples
        >>> round(slower.lifetime, 2), round(slower.enough_factor(6.5), 1)
        (1.06, 3.9)
    """

    epochs: float = 1.0
    lifetime: float = LIFETIME

    def __post_init__(self) -> None:
        _check("epochs", self.epochs, 1.0, finite=True)
        _check("lifetime", self.lifetime, 0.0, finite=False)

    @classmethod
    def fitted(cls, factor: float, worth: float) -> Repeats:
        """Return the price of echoes at which an example has a measured worth.

        Train with a factor and without echoing, to the same target: the worth is the
        fresh examples that the second training read, over those of the first.

        Args:
            factor: uses of an example in that training, on average, > 1.
            worth: measured worth of an example with its echoes, in fresh examples, from
                1 to `factor`.

        Returns:
            `Repeats` for one epoch, with `lifetime` such that `worth(factor)` is that.

        Raises:
            OptionError: an argument is out of range.
        """
        _check("factor", factor, 1.0, finite=True)
        _check("worth", worth, 1.0, finite=True)
        if factor == 1:
            raise OptionError("`factor` is 1, without echoes; it must be > 1.")
        if worth > factor:
            raise OptionError(
                f"`worth` is {show(worth)}; it must be at most `factor`, "
                f"{show(factor)}: an echo is worth no more than a fresh example."
            )
        return cls(lifetime=_lifetime(factor - 1.0, (worth - 1.0) / (factor - 1.0)))

    def worth(self, factor: float) -> float:
        """Return the fresh examples that an example with its echoes is worth.

        It is the mean over the epochs: 1 with one epoch and without echoes, less than
        1 where further epochs repeat the example.

        Args:
            factor: uses of an example in an epoch, on average, >= 0. Below 1 it is the
                share of the examples that are used.

        Raises:
            OptionError: the factor is out of range.
        """
        _check("factor", factor, 0.0, finite=False)
        return _worth(factor * self.epochs, self.lifetime) / self.epochs

    def last_echo(self, factor: float) -> float:
        """Return the fresh examples that the last echo of `factor` uses is worth.

        It is what `worth` grows by in the last echo, or in the part of it beyond the
        first use for factors below 2, per echo. NaN for a factor of 1 or less, which
        has no echoes.

        Args:
            factor: uses of an example in an epoch, on average, >= 0.

        Raises:
            OptionError: the factor is out of range.
        """
        _check("factor", factor, 0.0, finite=False)
        part = min(1.0, factor - 1.0)
        if not part > 0:
            return math.nan
        if math.isinf(factor):
            return 1.0 if math.isinf(self.lifetime) else 0.0
        # The difference of two worths, without cancellation.
        uses, echo = self.epochs * (factor - part), self.epochs * part
        gain = _repeated(echo, self.lifetime) * _fallen(uses - 1.0, self.lifetime)
        return gain / echo

    def mean_worth(self, factor: float) -> float:
        """Return the worth of a draw, in fresh examples: `worth` / factor.

        From 0 to 1; 1.0 for a factor of 0, and with one epoch up to a factor of 1.
        Where some examples are used more often than others, it is an upper bound.

        Args:
            factor: uses of an example in an epoch, on average, >= 0.

        Raises:
            OptionError: the factor is out of range.
        """
        worth = self.worth(factor)
        if factor == 0:
            return 1.0
        if math.isinf(factor):
            return 1.0 if math.isinf(self.lifetime) else 0.0
        return worth / factor

    def stop_factor(self, ratio: float) -> float:
        """Return the factor beyond which more echoes do not pay, in worth per second.

        An example with its echoes takes max(R, e) steps' time. Up to e = R a further
        echo takes no time. Beyond, it takes the time of a fresh use, and is worth less
        than the mean of the uses before it, whatever `lifetime` and `epochs` are:
        worth per second is highest at max(R, 1), and at 1 if repeats are worth nothing.

        Args:
            ratio: R = t_upstream / t_downstream, >= 0.

        Raises:
            OptionError: the ratio is out of range.
        """
        _check("ratio", ratio, 0.0, finite=False)
        return max(1.0, float(ratio)) if self.lifetime > 0 else 1.0

    def enough_factor(self, ratio: float) -> float:
        """Return the smallest factor that has 97 % of the most worth per second.

        Further echoes up to `stop_factor` take no time, and teach next to nothing. With
        several epochs it is the factor for just as many epochs: where it is small, use
        a larger factor for fewer epochs.

        Args:
            ratio: R = t_upstream / t_downstream, >= 0.

        Raises:
            OptionError: the ratio is out of range.
        """
        most = self.stop_factor(ratio)
        worth = ENOUGH * _worth(most * self.epochs, self.lifetime)
        return min(most, max(1.0, _uses(worth, self.lifetime) / self.epochs))


def _worth(uses: float, lifetime: float) -> float:
    """Return the worth of so many uses of one example, in fresh examples."""
    return uses if uses <= 1 else 1.0 + _repeated(uses - 1.0, lifetime)


def _repeated(repeats: float, lifetime: float) -> float:
    """Return L (1 - exp(-repeats / L))."""
    if math.isinf(lifetime):
        return repeats
    return -lifetime * math.expm1(-repeats / lifetime) if lifetime > 0 else 0.0


def _fallen(repeats: float, lifetime: float) -> float:
    """Return exp(-repeats / L), the worth of a repeat after so many others."""
    if lifetime > 0:
        return math.exp(-repeats / lifetime) if math.isfinite(repeats) else 0.0
    return 0.0


def _uses(worth: float, lifetime: float) -> float:
    """Return the number of uses with that worth, the inverse of `_worth`."""
    if worth <= 1 or math.isinf(lifetime):
        return worth
    return 1.0 - lifetime * math.log1p(-(worth - 1.0) / lifetime)


def _lifetime(repeats: float, share: float) -> float:
    """Return the lifetime L for which so many repeats are worth `share` of fresh ones.

    (1 - exp(-x)) / x, with x = repeats / L, falls from 1 to 0: bisection of log x.
    """
    low, high = -40.0, 40.0
    if not -math.expm1(-math.exp(high)) / math.exp(high) < share:
        return 0.0
    if not share < -math.expm1(-math.exp(low)) / math.exp(low):
        return math.inf
    for _ in range(64):
        middle = (low + high) / 2
        x = math.exp(middle)
        low, high = (middle, high) if -math.expm1(-x) / x > share else (low, middle)
    return repeats / math.exp((low + high) / 2)


def _check(name: str, value: Any, least: float, *, finite: bool) -> None:
    kind = "a finite number" if finite else "a number"
    most = sys.float_info.max if finite else math.inf
    check_number(name, value, lambda x: least <= x <= most, f"{kind} >= {least:g}")
