"""The leaves of batches: those of the spec, or what `transform` makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from echobuf import _core
from echobuf.tree import Spec, describe

if TYPE_CHECKING:
    from echobuf.transforms.lambdas import BatchFunction


@dataclass(frozen=True)
class OutputSpec:
    """The specification of batches: their leaves, and how each is made.

    Attributes:
        spec: of one example (of one whole batch) as batches have it.
        drawn: the same before functions on whole batches.
        plans: of each leaf: its field of the record, and the plan of its chain; None:
            the field as it is.
        functions: of each leaf: functions on whole batches.
        chains: the chains in words, by leaf; empty if there are none.
        numbers: of the operations of chains in random draws, by leaf.
    """

    spec: Spec
    drawn: Spec
    plans: tuple[tuple[int, _core.ChainPlan | None], ...]
    functions: tuple[tuple[BatchFunction, ...], ...]
    chains: dict[str, list[str]]
    numbers: dict[str, list[int]]

    def show(self) -> str:
        """Return the chains and their results in words, for `repr`."""
        if not self.chains:
            return ""
        chains = ", ".join(
            f"{leaf}: [{', '.join(chain)}]" for leaf, chain in self.chains.items()
        )
        return f", transform={{{chains}}} -> {describe(self.spec)}"


def make_output_spec(spec: Spec, transform: Any, *, ragged: bool) -> OutputSpec:
    """Return the leaves of batches: those of `spec`, or those that `transform` names.

    Args:
        spec: of one example, or of one whole batch.
        transform: the caller's; None for none.
        ragged: `spec` is of whole batches.

    Raises:
        OptionError: `transform` is no mapping from leaves to chains.
        SpecError: a chain does not fit its leaf.
    """
    if transform is None:
        plans = tuple((field, None) for field in range(len(spec.fields)))
        return OutputSpec(spec, spec, plans, ((),) * len(plans), {}, {})
    from echobuf.transforms.mapping import make

    return make(spec, transform, ragged=ragged)
