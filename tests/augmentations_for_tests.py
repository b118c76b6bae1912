"""Random tones, neighbours, policies and levels, on images, clips and boxes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import echobuf
from chains_for_tests import CLASSES, examples
from echobuf import transforms as t
from echobuf.transforms import graded


def random_augmentations(
    seed: int,
) -> tuple[dict[str, echobuf.Field], dict[str, Any]]:
    """Return a spec, and chains for its leaves: boxes and points follow the image."""
    dice = random.Random(seed)
    height, width = dice.randint(6, 14), dice.randint(6, 40)
    channels = dice.choice([1, 3, 3])
    dtype = dice.choice([np.uint8, np.uint8, np.float32])
    shape: tuple[int, ...] = (height, width, channels)
    frames = dice.choice([0, 0, 2, 3])
    if frames:
        shape = (frames + dice.randint(0, 2), *shape)
    spec = {
        "image": echobuf.Field(shape, dtype),
        "label": echobuf.Field((), np.int64),
        "boxes": echobuf.Field((9, 4), dice.choice(["f4", "f2", "i8", "u1"])),
        "points": echobuf.Field((7, 2), dice.choice([np.float32, np.float16])),
    }
    chain: list[Any] = []
    if frames:
        chain = [t.RandomWindow(frames), t.Layout("THWC")]
    whole = dtype == np.uint8
    kinds = _tones(dice, whole=whole)
    turns = _moves(dice, height, width)
    followed = not frames and dice.random() < 0.5
    if followed:
        turns += _followed(dice)
    else:
        kinds += [*_neighbours(dice), *_policies(dice), *_levels(dice)]
    moves = [dice.choice(turns)() for _ in range(2)]
    chain += moves
    chain += [dice.choice(kinds)() for _ in range(dice.randint(1, 4))]
    if dice.random() < 0.4:
        chain.append(t.Grayscale(dice.choice([1, 3])))
        channels = chain[-1].num_output_channels
    chain += _ends(dice, channels, whole=whole)
    transform: dict[str, Any] = {"image": chain}
    if followed:
        outside = dice.choice([-1, 0, float("nan")])
        boxes = t.BoundingBoxes("image", outside, dice.choice([0, 1, 3]))
        transform["boxes"] = [boxes, *moves]
        transform["points"] = [t.Keypoints("image", outside), *moves]
        if dice.random() < 0.4:
            spec["mask"] = echobuf.Field((height, width), np.uint8)
            transform["mask"] = [t.Mask(fill=255), *moves]
    return spec, transform


def rows_and_images(
    spec: dict[str, echobuf.Field], count: int, seed: int
) -> dict[str, Any]:
    """Return stacked examples: boxes and points in and around the image, or none."""
    made = examples(spec, count, seed)
    rng = np.random.default_rng(seed + 1)
    for name in {"boxes", "points"} & set(spec):
        field = spec[name]
        rows = rng.random((count, *field.shape)) * 40
        if field.dtype.kind == "f":
            rows = rows * 1.3 - 5
        if name == "boxes":
            rows = np.sort(rows.reshape(count, -1, 2, 2), axis=2)
            rows = rows.reshape(count, *field.shape)
        if field.dtype.kind == "f":
            rows[:, 0, 0], rows[:, 1], rows[:, 2] = np.nan, np.inf, -1
        made[name] = rows.reshape(count, *field.shape).astype(field.dtype)
    return made


def _moves(dice: random.Random, height: int, width: int) -> list[Any]:
    size = dice.randint(3, height), dice.randint(3, width)

    def turn() -> Any:
        how = dice.choice(["bilinear", "nearest"])
        return t.RandomRotation(40, interpolation=how, fill=1)

    return [
        lambda: t.Pad(2, padding_mode=dice.choice(["constant", "edge"])),
        lambda: t.CenterCrop(3),
        lambda: t.RandomCrop(size, padding=2, pad_if_needed=True),
        lambda: t.Resize(size, interpolation="bicubic"),
        lambda: t.RandomResizedCrop(size, scale=(0.3, 1)),
        lambda: t.RandomAffine(20, (0.2, 0.1), (0.5, 2), (-5, 9, -3, 8)),
        turn,
        t.RandomHorizontalFlip,
        t.RandomVerticalFlip,
    ]


def _followed(dice: random.Random) -> list[Any]:
    """Return what boxes and points follow, too, and containers of it."""

    def warp() -> Any:
        kind = dice.choice(graded.WARPS)
        levels = tuple(dice.uniform(0, 50 if kind == "rotate" else 3) for _ in range(4))
        return graded.GradedWarp(levels, kind, dice.random() < 0.5)

    moves: list[Any] = [
        t.RandomHorizontalFlip(),
        [t.RandomVerticalFlip(1.0), t.ColorJitter(0.3)],
        t.RandomPerspective(),
        t.RandomApply([t.RandomRotation(30)], 0.6),
    ]
    ways: list[Any] = [t.RandomResizedCrop(8), [t.Resize(9), t.CenterCrop(8)]]
    return [
        *(warp, warp),
        lambda: t.RandomPerspective(dice.choice([0.0, 0.4, 1.0]), 0.8),
        lambda: t.RandomApply([t.RandomHorizontalFlip(1.0), t.ColorJitter(0.4)], 0.6),
        lambda: t.RandomOrder(dice.sample(moves, 3)),
        lambda: t.RandomChoice([[], *dice.sample(moves, 2)], [1, 2, 3]),
        lambda: t.RandomChoice(ways),
        t.TrivialAugmentWide,
    ]


def _tones(dice: random.Random, *, whole: bool) -> list[Any]:
    white = 255 if whole else 1
    threshold = dice.random() * white
    return [
        lambda: dice.choice([t.Invert(), t.RandomInvert()]),
        lambda: dice.choice([t.Solarize(threshold), t.RandomSolarize(threshold)]),
        lambda: dice.choice([t.Posterize(3), t.RandomPosterize(2)]),
        lambda: dice.choice([t.AutoContrast(), t.RandomAutocontrast()]),
        lambda: dice.choice([t.Equalize(), t.RandomEqualize()]),
        lambda: t.RandomGrayscale(0.5),
        lambda: t.ColorJitter(0.4, 0.4, 0.4, 0.1),
    ]


def _neighbours(dice: random.Random) -> list[Any]:
    return [
        lambda: dice.choice([t.Sharpness(2), t.RandomAdjustSharpness(0.3)]),
        lambda: t.GaussianBlur(3, (0.1, 3)),
        lambda: t.RandomPerspective(0.5, p=0.8, fill=2),
    ]


def _policies(dice: random.Random) -> list[Any]:
    how = dice.choice(["nearest", "bilinear"])
    fill = dice.choice([None, 3])

    def rare() -> Any:  # a hundred stages, each a kernel
        if dice.random() < 0.1:
            return t.AutoAugment(dice.choice(["imagenet", "cifar10", "svhn"]))
        return t.RandAugment(2, interpolation=how)

    return [
        rare,
        lambda: t.RandAugment(1, interpolation=how, fill=fill),
        lambda: t.TrivialAugmentWide(interpolation=how, fill=fill),
        lambda: t.RandomApply([t.GaussianBlur(3), t.Equalize()], 0.6),
        lambda: t.RandomChoice([t.AutoContrast(), [], t.RandomVerticalFlip(1.0)]),
        lambda: t.RandomOrder([t.Invert(), t.RandomRotation(20)]),
    ]


def _levels(dice: random.Random) -> list[Any]:
    def warp() -> Any:
        kind = dice.choice(graded.WARPS)
        how = dice.choice(["nearest", "bilinear"])
        fill = dice.choice([None, 3])
        return graded.GradedWarp((0.3, 5.0), kind, True, how, fill)

    return [
        warp,
        lambda: graded.GradedColor((0.2, 0.9), dice.choice(graded.COLORS), True),
        lambda: graded.GradedPosterize((8.0, 3.0)),
        lambda: graded.GradedSolarize((0.9, 0.2)),
        lambda: graded.GradedSharpness((0.0, 0.9)),
    ]


def _ends(dice: random.Random, channels: int, *, whole: bool) -> list[Any]:
    chain: list[Any] = []
    if dice.random() < 0.2:
        return chain
    if whole:
        chain.append(t.ToDtype(np.float32, scale=True))
    if dice.random() < 0.5:
        chain.append(t.Normalize([0.4] * channels, [0.3] * channels))
    if dice.random() < 0.4:
        mix = dice.choice([t.MixUp, t.CutMix])
        chain.append(mix(num_classes=CLASSES))
    elif dice.random() < 0.5:
        chain.append(t.ToDtype(dice.choice(["bfloat16", np.float16])))
    if dice.random() < 0.5:
        chain.append(t.ToChannelFirst())
    return chain
