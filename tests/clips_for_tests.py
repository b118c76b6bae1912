"""Random chains on clips, from those on images."""

from __future__ import annotations

from typing import Any

from chains_for_tests import random_case
from echobuf import Field
from echobuf import transforms as t


def random_clip_case(seed: int, frames: int) -> tuple[dict[str, Field], dict[str, Any]]:
    """Return a spec and chains of `random_case`, its images with an axis of time."""
    # Every fifth case is of sequences.
    spec, transform = random_case(seed + seed // 4)
    clips = {
        name: Field((frames, *field.shape), field.dtype)
        for name, field in spec.items()
        if len(field.shape) > 1
    }
    chains = {
        name: [_of_clip(operation) for operation in chain]
        for name, chain in transform.items()
    }
    return {**spec, **clips}, chains


def _of_clip(operation: t.Operation) -> t.Operation:
    if isinstance(operation, t.Layout):
        return t.Layout(f"T{operation.order}")
    return operation
