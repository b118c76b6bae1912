"""What batches are made of: leaves of the spec, or what `transform` makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from echobuf import _core
from echobuf.tree import Spec, describe

if TYPE_CHECKING:
    from echobuf.transforms.after import After


@dataclass(frozen=True)
class Made:
    """What batches are made of.

    Attributes:
        spec: of one example (of one whole batch) as batches have it.
        drawn: the same before functions on whole batches.
        plans: of each leaf: the field that it is made of, and how; None: as it is.
        after: of each leaf: functions on whole batches.
        shown: the chains in words, by leaf; empty if there are none.
    """

    spec: Spec
    drawn: Spec
    plans: tuple[tuple[int, _core.ChainPlan | None], ...]
    after: tuple[tuple[After, ...], ...]
    shown: dict[str, list[str]]

    def show(self) -> str:
        """The chains and what comes out, for `repr`."""
        if not self.shown:
            return ""
        chains = ", ".join(
            f"{leaf}: [{', '.join(chain)}]" for leaf, chain in self.shown.items()
        )
        return f", transform={{{chains}}} -> {describe(self.spec)}"
