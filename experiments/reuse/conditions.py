"""The ways to choose the later uses of fresh examples that are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fresh.conditions import BATCH, WINDOW, Condition

__all__ = ["FACTORS", "ReuseCondition", "Uses", "conditions"]

FACTORS = (2, 4, 8)
_USUAL = 4  # echoes with other probabilities
_THIN, _OTHER_THIN = 0.5, (0.3, 0.7)

Uses = Literal["all", "loss", "chance"]


@dataclass(frozen=True)
class ReuseCondition(Condition):
    """Echoing before augmentation, in which passes may leave examples out.

    Attributes:
        uses: "all": each example is used `factor` times; "loss": `reuse="loss"`, and
            losses are weighted; "chance": the same with losses that are reported for
            other examples of their batch, and without weights: as many are left out,
            whatever their loss is.
        thin: the probability of being left out.
    """

    uses: Uses = "all"
    thin: float = 0.0

    def __str__(self) -> str:
        if self.factor == 1:
            return self.kind
        how = {"all": "all uses", "loss": "by loss", "chance": "by chance"}[self.uses]
        thin = f", thin {self.thin}" if self.uses != "all" else ""
        return f"e = {self.factor}, {how}{thin}"

    @property
    def plain(self) -> ReuseCondition:
        """Return the condition without echoing."""
        return _no_echoing()

    @property
    def near(self) -> ReuseCondition | None:
        """Return the condition whose best learning rate is tried first, if any.

        Half of the factor; where examples are left out, the same with all uses.
        """
        if self.uses != "all":
            return ReuseCondition("before", self.factor)
        if self.factor == 1:
            return None
        if self.factor == min(FACTORS):
            return self.plain
        return ReuseCondition("before", self.factor // 2)


def _no_echoing() -> ReuseCondition:
    return ReuseCondition("no echoing", 1, 2 * BATCH)


def conditions() -> list[ReuseCondition]:
    """Return all conditions, the most important first."""
    before, window = "before", WINDOW
    return [
        _no_echoing(),
        *(
            ReuseCondition(before, factor, window, uses=uses, thin=thin)
            for factor in FACTORS
            for uses, thin in (("all", 0.0), ("loss", _THIN), ("chance", _THIN))
        ),
        *(
            ReuseCondition(before, _USUAL, window, uses="loss", thin=thin)
            for thin in _OTHER_THIN
        ),
    ]
