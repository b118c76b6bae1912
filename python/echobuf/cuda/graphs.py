"""Draws in graphs: which batches can be captured."""

from __future__ import annotations

from typing import Any

from echobuf.options import Options
from echobuf.spec import Spec


def why_no_graph(options: Options, spec: Spec, plans: list[Any]) -> str:
    """Return why draws cannot be captured; "" if they can."""
    if options.max_rows is not None:
        return (
            "with `max_rows` batches differ in their number of examples; give "
            "`batch_size` in its place"
        )
    if spec.is_ragged and not options.packs and any(plan is not None for plan in plans):
        return (
            "`transform` has chains, which graphs of ragged leaves do not have yet; "
            "draw with `next_batch` outside the graph, and copy the batch to where the "
            "graph reads it, or use `pack_to`"
        )
    return ""
