"""Tones, policies, clips, boxes and points on a device are those of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import echobuf
from augmentations_for_tests import random_augmentations, rows_and_images
from chains_for_tests import random_case
from containers_for_tests import random_containers
from echobuf import transforms as t
from echobuf.testing import simulated_cuda
from echobuf.transforms import graded, sharpness

APART = {  # without a place in random chains: they run elsewhere, or are no operations
    t.Custom,
    t.Lambda,
    t.Operation,
}


def drawn(device: str, seed: int) -> list[dict[str, bytes]]:
    spec, transform = random_augmentations(seed)
    options = {"batch_size": 3, "window": 12, "factor": 2, "seed": seed}
    with echobuf.EchoBuffer(
        spec, device=device, transform=transform, **options
    ) as buffer:
        buffer.put_batch(rows_and_images(spec, 12, seed))
        buffer.close()
        return [
            {name: np.array(leaf).tobytes() for name, leaf in batch.items()}
            for batch in buffer
        ]


@pytest.mark.parametrize(
    ("seed", "kernels"),
    [
        *((seed, "host") for seed in range(20)),
        *((seed, "ptx") for seed in (0, 5)),
    ],
)
def test_random_chains_are_those_of_the_cpu(seed: int, kernels: str) -> None:
    on_host = drawn("cpu", seed)
    with simulated_cuda(seed, kernels):
        assert drawn("cuda", seed) == on_host


def kinds_in(operations: Any) -> Iterator[type]:
    """Yield the types of operations, and of those inside of containers."""
    for operation in operations:
        if isinstance(operation, list | tuple):
            yield from kinds_in(operation)
            continue
        yield type(operation)
        yield from kinds_in(getattr(operation, "branches", ()))


def test_random_chains_hold_every_operation() -> None:
    found: set[type] = set()
    for seed in range(200):
        for case in (random_case, random_containers, random_augmentations):
            _, transform = case(seed)
            for chain in transform.values():
                found |= set(kinds_in(chain))
    wanted = {getattr(t, name) for name in t.__all__} - APART
    wanted |= {graded.GradedColor, graded.GradedWarp, sharpness.GradedSharpness}
    wanted |= {graded.GradedPosterize, graded.GradedSolarize}
    assert wanted - found == set()
