"""The ways to use each fresh example that are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = [
    "BATCH",
    "FACTORS",
    "WINDOW",
    "Condition",
    "conditions",
    "opposite_conditions",
]

BATCH = 32
WINDOW = 512  # examples; the least in which no batch of 16 echoes holds one twice
FACTORS = (2, 4, 8, 16)
_KINDS: tuple[Kind, ...] = ("batch", "after", "before")
_USUAL = 4  # echoes with other windows and batches
_OTHER_WINDOWS = (128, 2048)
_OTHER_BATCHES = (16, 64)

Kind = Literal["no echoing", "batch", "after", "before", "opposite"]


@dataclass(frozen=True)
class Condition:
    """One way to use each fresh example.

    Attributes:
        kind: what is echoed: nothing, whole batches, examples after augmentation, or
            before it; "opposite": before it, and operations alternate.
        factor: uses of each example.
        window: examples in it.
        batch_size: examples a step.
    """

    kind: Kind
    factor: int = 1
    window: int = WINDOW
    batch_size: int = BATCH

    def __str__(self) -> str:
        if self.kind == "no echoing":
            return f"{self.kind}, batches of {self.batch_size}"
        return (
            f"{self.kind}, e = {self.factor}, window {self.window}, "
            f"batches of {self.batch_size}"
        )

    @property
    def echoes_batches(self) -> bool:
        """Return whether batches are echoed whole."""
        return self.kind in ("no echoing", "batch")

    @property
    def augments_echoes(self) -> bool:
        """Return whether each echo is augmented anew."""
        return self.kind in ("before", "opposite")

    @property
    def plain(self) -> Condition:
        """Return the condition without echoing, with the same batches."""
        return _plain(self.batch_size)

    @property
    def near(self) -> Condition | None:
        """Return the condition whose best learning rate is tried first, if any.

        Half of the factor; for another window or batch size, the usual one, and with
        more echoes than usual there, the usual echoes.
        """
        if self.group == "factors":
            if self.factor == 1:
                return None
            half = self.factor // 2
            return self.plain if half == 1 else replace(self, factor=half)
        if self.factor == 1:
            return _plain(BATCH)
        if self.factor != _USUAL:
            return replace(self, factor=_USUAL)
        return replace(self, window=WINDOW, batch_size=BATCH)

    @property
    def group(self) -> Literal["factors", "windows", "batches"]:
        """Return the comparison that a condition is part of; the first, if of all."""
        if self.batch_size != BATCH:
            return "batches"
        usual = self.kind == "no echoing" or self.window == WINDOW
        return "factors" if usual else "windows"


def _plain(batch_size: int) -> Condition:
    # Upstream is shuffled: two batches let reading and training overlap.
    return Condition("no echoing", 1, 2 * batch_size, batch_size)


def conditions() -> list[Condition]:
    """Return all conditions, the most important first."""
    return [
        _plain(BATCH),
        *(Condition(kind, factor) for factor in FACTORS for kind in _KINDS),
        *(Condition(kind, _USUAL, size) for size in _OTHER_WINDOWS for kind in _KINDS),
        *(_plain(size) for size in _OTHER_BATCHES),
        *(
            Condition(kind, _USUAL, WINDOW, size)
            for size in _OTHER_BATCHES
            for kind in _KINDS
        ),
        *(Condition(kind, max(FACTORS), max(_OTHER_WINDOWS)) for kind in _KINDS),
    ]


def opposite_conditions() -> list[Condition]:
    """Return echoing before augmentation, with and without `alternate=True`."""
    kinds: tuple[Kind, ...] = ("before", "opposite")
    pairs = (Condition(kind, factor) for factor in FACTORS for kind in kinds)
    return [_plain(BATCH), *pairs]
