"""The ways to use rollouts that are compared."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CONDITIONS", "Condition"]


@dataclass(frozen=True)
class Condition:
    """One way to use each rollout.

    Attributes:
        factor: uses of each rollout, if it does not expire before.
        max_staleness: a rollout is drawn no more once one of a policy that is more than
            so many policies younger has been put; None: it never expires.
    """

    factor: int
    max_staleness: int | None = None

    def __str__(self) -> str:
        limit = "none" if self.max_staleness is None else str(self.max_staleness)
        return f"e = {self.factor}, limit {limit}"

    @property
    def near(self) -> Condition | None:
        """Return the condition whose best learning rate is tried first, if any."""
        if self.max_staleness is not None:
            return Condition(self.factor)
        return None if self.factor == 1 else Condition(self.factor // 2)


# A rollout is used e times within e policies: larger limits change nothing.
CONDITIONS = tuple(
    Condition(factor, limit)
    for factor, limits in ((1, ()), (2, (0,)), (4, (2, 1, 0)))
    for limit in (None, *limits)
)
