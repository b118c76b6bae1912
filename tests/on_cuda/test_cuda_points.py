"""Boxes and points on a device are those of the CPU, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from echobuf.testing import simulated_cuda
from echobuf.transforms import graded
from helpers import WAIT_S

COUNT, ROWS = 12, 21


def case(seed: int) -> tuple[dict[str, echobuf.Field], dict[str, Any]]:
    """A spec, and chains of a few operations that all rows follow."""
    dice = random.Random(seed)
    spec = _spec(dice, (dice.randint(9, 30), dice.randint(9, 30)))
    kinds: list[Any] = [
        lambda: t.RandomCrop(dice.randint(5, 30), padding=2, pad_if_needed=True),
        t.RandomHorizontalFlip,
        t.RandomVerticalFlip,
        lambda: t.Resize((dice.randint(5, 40), dice.randint(5, 40))),
        lambda: t.RandomResizedCrop(dice.randint(5, 30), scale=(0.3, 1)),
        lambda: t.RandomRotation(dice.randint(5, 180)),
        lambda: t.RandomAffine(20, (0.2, 0.1), (0.5, 2), (-5, 9, -3, 8), center=(3, 4)),
    ]
    return _followed(dice, spec, kinds)


def warped(seed: int) -> tuple[dict[str, echobuf.Field], dict[str, Any]]:
    """Chains of moved corners and graded warps."""
    dice = random.Random(seed)
    size = dice.randint(9, 30), dice.randint(9, 30)

    def graded_warp() -> t.Operation:
        kind = dice.choice(graded.WARPS)
        levels = tuple(dice.uniform(0, 50 if kind == "rotate" else 3) for _ in range(4))
        return graded.GradedWarp(levels, kind, dice.random() < 0.5)

    kinds: list[Any] = [
        *[graded_warp] * 3,
        *[lambda: t.RandomPerspective(dice.choice([0.0, 0.4, 1.0]), 0.8)] * 3,
        t.RandomHorizontalFlip,
        lambda: t.Resize((dice.randint(5, 40), dice.randint(5, 40))),
    ]
    return _followed(dice, _spec(dice, size), kinds)


def contained(seed: int) -> tuple[dict[str, echobuf.Field], dict[str, Any]]:
    """Chains of containers, and augmentations by policies; a mask follows, too."""
    dice = random.Random(seed)
    size = dice.randint(9, 30), dice.randint(9, 30)
    ways: list[Any] = [t.RandomResizedCrop(8), [t.Resize(9), t.CenterCrop(8)]]
    moves: list[Any] = [
        t.RandomHorizontalFlip(),
        t.RandomCrop(size, padding=3),
        [t.RandomVerticalFlip(1.0), t.ColorJitter(0.3)],
        t.RandomPerspective(),
        t.RandomApply([t.RandomRotation(30)], 0.6),
    ]
    kinds: list[Any] = [
        lambda: t.RandomApply([t.RandomHorizontalFlip(1.0), t.ColorJitter(0.4)], 0.6),
        lambda: t.RandomOrder(dice.sample(moves, 3)),
        lambda: t.RandomChoice([[], *dice.sample(moves, 2)], [1, 2, 3]),
        t.TrivialAugmentWide,
        lambda: t.RandAugment(1),
    ]
    spec, transform = _followed(dice, _spec(dice, size), kinds, dice.randint(1, 2))
    end = dice.choice([[], [t.RandomChoice(ways)]])
    for chain in transform.values():
        chain.extend(end)
    spec["mask"] = echobuf.Field(size, np.uint8)
    transform["mask"] = [t.Mask(fill=255), *transform["image"]]
    return spec, transform


CASES = {"plain": case, "warped": warped, "contained": contained}


def _spec(dice: random.Random, size: tuple[int, int]) -> dict[str, echobuf.Field]:
    return {
        "boxes": echobuf.Field((ROWS, 4), dice.choice(["f4", "i8", "u1", "f2"])),
        "image": echobuf.Field((*size, 3), np.uint8),
        "points": echobuf.Field((ROWS, 2), np.float32),
    }


def _followed(
    dice: random.Random, spec: dict[str, Any], kinds: list[Any], count: int = 0
) -> tuple[dict[str, echobuf.Field], dict[str, Any]]:
    chain = [dice.choice(kinds)() for _ in range(count or dice.randint(2, 5))]
    outside = dice.choice([-1, 0, float("nan")])
    transform = {
        "boxes": [t.BoundingBoxes("image", outside, dice.choice([0, 1, 3])), *chain],
        "image": [*chain],
        "points": [t.Keypoints("image", outside), *chain],
    }
    return spec, transform


def examples(spec: dict[str, echobuf.Field], seed: int) -> dict[str, np.ndarray]:
    """Stacked; rows in and around the image, and some that are no rows."""
    rng = np.random.default_rng(seed)
    height, width, _ = spec["image"].shape
    made = {"image": rng.integers(0, 256, (COUNT, *spec["image"].shape), np.uint8)}
    if "mask" in spec:
        made["mask"] = made["image"][..., 0] // 32
    for name in ("boxes", "points"):
        field = spec[name]
        rows = rng.random((COUNT, *field.shape)) * max(height, width)
        if name == "boxes":
            rows[:, 4:] = np.sort(rows[:, 4:].reshape(COUNT, -1, 2, 2), 2).reshape(
                COUNT, -1, 4
            )
        if field.dtype.kind == "f":
            rows = rows * 1.3 - 3
            rows[:, 0, 0], rows[:, 1] = np.nan, np.inf
            rows[:, 2] = -1
        made[name] = rows.astype(field.dtype)
    return made


def bits(device: str, kind: str, seed: int) -> list[dict[str, bytes]]:
    """Of all leaves of all batches. Of a NaN its bits, too: a chosen one is written."""
    spec, transform = CASES[kind](seed)
    options = {"batch_size": 4, "window": COUNT, "factor": 2, "seed": seed}
    with echobuf.EchoBuffer(
        spec, transform=transform, device=device, **options
    ) as buffer:
        buffer.put_batch(examples(spec, seed), timeout=WAIT_S)
        buffer.close()
        return [
            {name: np.array(leaf).tobytes() for name, leaf in batch.items()}
            for batch in buffer
        ]


@pytest.mark.parametrize(
    ("kind", "seed", "kernels"),
    [
        *((kind, seed, "host") for kind in CASES for seed in range(15)),
        ("plain", 0, "ptx"),
        ("warped", 0, "ptx"),
    ],
)
def test_rows_are_those_of_the_cpu(kind: str, seed: int, kernels: str) -> None:
    on_host = bits("cpu", kind, seed)
    with simulated_cuda(2, kernels):
        assert bits("cuda", kind, seed) == on_host
