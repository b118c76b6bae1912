"""Tones and graded operations on a device make what they make on the CPU."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from echobuf.transforms import graded
from test_cuda_transforms import IMAGE, KERNELS, SCALED, expect_same


def _tones(dice: random.Random, white: int) -> list[Any]:
    p = dice.choice([0.3, 0.7, 1.0])
    return [
        dice.choice([t.Invert(), t.RandomInvert(p)]),
        t.RandomSolarize(dice.random() * white, p),
        t.RandomPosterize(dice.randint(0, 8), p),
        dice.choice([t.AutoContrast(), t.RandomAutocontrast(p)]),
        dice.choice([t.Equalize(), t.RandomEqualize(p)]),
        dice.choice([t.RandomGrayscale(p), t.Grayscale(3)]),
        t.Pad(dice.randint(0, 3), fill=1),
        t.RandomCrop((7, 8)),
        t.RandomHorizontalFlip(),
        t.ColorJitter(contrast=0.5, saturation=0.4),
        t.Resize((8, 9)),
        graded.GradedColor((0.1, 0.4, 0.7), dice.choice(graded.COLORS)),
        graded.GradedWarp(
            (0.2, 1.0, 3.0),
            dice.choice(graded.WARPS),
            interpolation=dice.choice(["nearest", "bilinear"]),
            fill=dice.choice([None, 1]),
        ),
        graded.GradedPosterize((4.0, 7.0, 2.5)),
        graded.GradedSolarize((0.2, 0.9)),
    ]


def random_tones(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A spec, and chains of tones among other operations."""
    dice = random.Random(seed)
    planar = dice.random() < 0.5
    shape = (3, 9, 11) if planar else (9, 11, 3)
    dtype = dice.choice([np.uint8, np.uint8, np.float32])
    spec = {
        "image": echobuf.Field(shape, dtype),
        "label": echobuf.Field((), np.int64),
    }
    chain: list[Any] = [t.Layout("CHW" if planar else "HWC")]
    white = 255 if dtype == np.uint8 else 1
    for _ in range(dice.randint(1, 4)):
        chain.append(dice.choice(_tones(dice, white)))
    ends = [[], [t.Grayscale()], [SCALED], [t.ToDtype("float16", scale=True)]]
    ends += [[SCALED, t.MixUp(num_classes=5)], [SCALED, t.AutoContrast()]]
    ends += [[t.Equalize(), SCALED, t.MixUp(num_classes=5), t.ToChannelFirst()]]
    ends += [[t.ToDtype("bfloat16", scale=True), t.RandomEqualize()]]
    return spec, {"image": chain + dice.choice(ends)}


@pytest.mark.parametrize(
    ("seed", "kernels"),
    [*((seed, "host") for seed in range(25)), *((seed, "ptx") for seed in range(3))],
)
def test_random_tones_are_those_of_the_cpu(seed: int, kernels: str) -> None:
    spec, transform = random_tones(seed)
    dice = random.Random(seed)
    factor = dice.choice([1, 2, 2.5])
    expect_same(spec, transform, kernels, factor=factor, batch_size=dice.choice([1, 3]))


@KERNELS
@pytest.mark.parametrize(
    "tone", [t.RandomEqualize(), t.RandomAutocontrast(), t.ColorJitter(contrast=0.5)]
)
def test_statistics_of_a_partner(tone: t.Operation, kernels: str) -> None:
    """In the stage of the mix, and in one before it."""
    for between in ([], [t.RandomRotation(20)]):
        chain = [t.RandomCrop(8), tone, *between, SCALED, t.MixUp(num_classes=5)]
        expect_same(IMAGE, {"image": chain}, kernels)


@pytest.mark.parametrize(
    ("shape", "kernels"), [((130, 200, 3), "host"), ((2, 4100, 1), "ptx")]
)
@pytest.mark.parametrize(
    "tone", [t.Equalize(), t.AutoContrast(), t.Grayscale(3)], ids=repr
)
def test_images_of_several_tiles(
    tone: t.Operation, shape: tuple[int, ...], kernels: str
) -> None:
    spec = {"image": echobuf.Field(shape, np.uint8), "label": IMAGE["label"]}
    chain = [t.RandomHorizontalFlip(), tone, SCALED]
    expect_same(spec, {"image": chain}, kernels, factor=1, batch_size=1)
