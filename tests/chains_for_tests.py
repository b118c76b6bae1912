"""Random chains of operations, and examples for them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import echobuf
from echobuf import transforms as t

CLASSES = 5


def random_case(seed: int) -> tuple[dict[str, echobuf.Field], dict[str, Any]]:
    """A spec, and chains for its leaves."""
    dice = random.Random(seed)
    if seed % 5 == 4:
        return _sequences(dice)
    height, width = dice.randint(5, 14), dice.randint(5, 40)
    channels = dice.choice([1, 3, 3])
    first = dice.random() < 0.3
    shape = (channels, height, width) if first else (height, width, channels)
    dtype = dice.choice([np.uint8, np.uint8, np.float32])
    spec = {
        "image": echobuf.Field(shape, dtype),
        "label": echobuf.Field((), np.int64),
        "mask": echobuf.Field((height, width), np.uint8),
        "other": echobuf.Field((7,), np.uint8),
    }
    chain = [t.Layout("CHW" if first else "HWC"), *_moves(dice, height, width)]
    transform: dict[str, Any] = {"image": chain}
    if len(chain) > 1 and dice.random() < 0.3:  # the mask moves with the image
        # Half of the masks are of classes, and half are interpolated, as floats.
        kind = t.Mask() if seed % 2 else t.ToDtype(np.float32)
        transform["mask"] = [t.Layout("HW"), kind, *chain[1:]]
    chain += _changes(dice, channels, dtype == np.uint8)
    if dice.random() < 0.4:
        transform["view"] = [t.Source("image"), *chain[:2], *_moves(dice, 4, 4)[:1]]
    return spec, transform


def _moves(dice: random.Random, height: int, width: int) -> list[Any]:
    def crop() -> Any:
        mode = dice.choice(["constant", "edge", "reflect", "symmetric"])
        size = (dice.randint(2, height), dice.randint(2, width))
        return t.RandomCrop(size, padding=2, fill=3, padding_mode=mode)

    def resized() -> Any:
        size = (dice.randint(2, 12), dice.randint(2, 40))
        return t.RandomResizedCrop(
            size,
            scale=(0.2, 1),
            antialias=dice.random() < 0.7,
            interpolation=dice.choice(["bilinear", "bicubic"]),
        )

    def resize() -> Any:
        how = dice.choice(["bilinear", "bicubic", "nearest", "nearest-exact"])
        return t.Resize((dice.randint(2, 12), 9), interpolation=how)

    def turn() -> Any:
        how = dice.choice(["bilinear", "nearest"])
        return t.RandomRotation(40, interpolation=how, fill=1)

    def shift() -> Any:
        return t.RandomAffine(20, translate=(0.2, 0.1), scale=(0.5, 2), shear=5)

    def soft() -> Any:
        kinds = (t.GaussianBlur(3, (0.1, 3)), t.RandomAdjustSharpness(2.5))
        return dice.choice([*kinds, t.RandomPerspective(0.5, p=0.8, fill=2)])

    flips = (t.RandomHorizontalFlip, t.RandomVerticalFlip)
    kinds = [crop, resized, resize, turn, shift, soft, flips[0], flips[1]]
    first = dice.choice(kinds)()
    return [first, *(flip() for flip in flips if dice.random() < 0.5)]


def _changes(dice: random.Random, channels: int, integer: bool) -> list[Any]:
    chain: list[Any] = []
    if dice.random() < 0.4:
        chain.append(t.ColorJitter(0.4, 0.4, 0.4, 0.1))
    if dice.random() < 0.3:
        chain.append(t.RandomErasing(p=0.8))
    if dice.random() < 0.15:
        return chain
    if integer:
        chain.append(t.ToDtype(np.float32, scale=True))
    chain.append(t.Normalize([0.4] * channels, [0.3] * channels))
    if dice.random() < 0.2:
        chain.append(t.GaussianNoise(sigma=0.3))
    if dice.random() < 0.4:
        mix = dice.choice([t.MixUp, t.CutMix])
        chain.append(mix(num_classes=CLASSES))
    elif dice.random() < 0.7:
        chain.append(t.ToDtype(dice.choice(["bfloat16", np.float16, np.float32])))
    if dice.random() < 0.5:
        chain.append(t.ToChannelFirst())
    return chain


def _sequences(dice: random.Random) -> tuple[dict[str, echobuf.Field], dict[str, Any]]:
    length = dice.randint(10, 50)
    spec = {
        "tokens": echobuf.Field((length,), np.int32),
        "wave": echobuf.Field((length,), np.float32),
        "bands": echobuf.Field((8, length), np.float32),
    }
    kind = dice.choice([t.RandomWindow, t.RandomWindow, t.CenterWindow])
    window = kind(dice.randint(4, length))
    mask = t.TokenMask(1, 100, special_tokens=(2,))
    return spec, {
        "tokens": [window, mask],
        "labels": [t.Source("tokens"), window, mask.labels()],
        "wave": [window, t.RandomGain(), t.GaussianNoise()],
        "bands": [t.SpecMask(3, 6, num_time_masks=2)],
    }


def examples(spec: dict[str, echobuf.Field], count: int, seed: int) -> dict[str, Any]:
    """`count` of them, stacked."""
    rng = np.random.default_rng(seed)
    made = {}
    for name, field in spec.items():
        shape = (count, *field.shape)
        if field.dtype.kind == "f":
            made[name] = rng.random(shape, np.float32)
        else:
            most = CLASSES if name == "label" else 200
            made[name] = rng.integers(0, most, shape).astype(field.dtype)
    return made
