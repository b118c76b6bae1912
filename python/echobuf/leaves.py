"""Which leaves batches have: those of the spec, or what `transform` says."""

from __future__ import annotations

from typing import Any

from echobuf.made import Made
from echobuf.tree import Spec


def make_leaves(spec: Spec, transform: Any, *, ragged: bool) -> Made:
    """Reads `transform` for examples, or for whole batches if `ragged`.

    Raises:
        OptionError: it is no mapping from leaves to chains.
        SpecError: a chain does not fit its leaf.
    """
    if transform is None:
        plans = tuple((field, None) for field in range(len(spec.fields)))
        return Made(spec, spec, plans, ((),) * len(plans), {})
    from echobuf.transforms.mapping import make

    return make(spec, transform, ragged=ragged)
