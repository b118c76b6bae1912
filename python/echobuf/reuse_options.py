"""The arguments that say which records passes leave out, checked."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from echobuf.arguments import check_int
from echobuf.errors import OptionError, show

Reuse: TypeAlias = Literal["loss"] | None

_MOST_STALENESS = 2**63 - 1


@dataclass(frozen=True)
class ReuseOptions:
    """Which records passes leave out.

    Attributes:
        by_loss: some of those whose last loss is under the mean of the window.
        thin: the probability of that.
        max_staleness: those put with versions older than the newest by more than this;
            None: none.
    """

    by_loss: bool = False
    thin: float = 0.5
    max_staleness: int | None = None

    @property
    def any(self) -> bool:
        """True if passes may leave records out."""
        return self.by_loss or self.max_staleness is not None

    def show(self) -> str:
        """Return the arguments for `repr`."""
        by_loss = f", reuse='loss', thin={self.thin}" if self.by_loss else ""
        if self.max_staleness is None:
            return by_loss
        return f"{by_loss}, max_staleness={self.max_staleness}"

    def core_arguments(self) -> dict[str, Any]:
        """Return the arguments of the core's options."""
        staleness = -1 if self.max_staleness is None else self.max_staleness
        return {"by_loss": self.by_loss, "thin": self.thin, "max_staleness": staleness}

    def state_arguments(self) -> dict[str, Any]:
        """Return the arguments that the order of batches depends on, where given."""
        reuse = {"reuse": "loss", "thin": self.thin} if self.by_loss else {}
        if self.max_staleness is None:
            return reuse
        return {**reuse, "max_staleness": self.max_staleness}


def check_reuse(
    *,
    reuse: Any,
    thin: Any,
    max_staleness: Any,
    with_info: bool,
    pack_to: int | None,
) -> ReuseOptions:
    """Check the arguments.

    Raises:
        OptionError: an argument is out of range, or does not go with another.
    """
    if not (reuse is None or (isinstance(reuse, str) and reuse == "loss")):
        raise OptionError(f"`reuse` is {show(reuse)}; it must be 'loss', or None.")
    options = ReuseOptions(
        by_loss=reuse is not None,
        thin=_check_thin(thin),
        max_staleness=None
        if max_staleness is None
        else check_int("max_staleness", max_staleness, 0, _MOST_STALENESS),
    )
    if options.by_loss and not with_info:
        raise OptionError(
            "`reuse` is 'loss', and `with_info` is False: `report(info, loss)` wants "
            "the infos of batches, and losses their weights. Give with_info=True."
        )
    if options.any and pack_to is not None:
        name = "reuse" if options.by_loss else "max_staleness"
        raise OptionError(
            f"`{name}` is {reuse if options.by_loss else max_staleness!r}, and with "
            f"`pack_to`, which is {pack_to}, passes serve all records: leave `{name}` "
            "out, or `pack_to`."
        )
    return options


def _check_thin(thin: Any) -> float:
    try:
        if isinstance(thin, bool) or not isinstance(thin, numbers.Real):
            raise TypeError
        share = float(thin)
    except (TypeError, ValueError, OverflowError):
        share = math.nan
    if not 0 <= share < 1:
        raise OptionError(
            f"`thin` is {show(thin)}; it must be a number from 0 to below 1, the "
            "probability that a record whose loss is low is left out of a pass."
        )
    return share
