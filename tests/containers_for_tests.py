"""Random chains with containers, of any operations, and mixes that chance applies."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import echobuf
from echobuf import transforms as t

CLASSES = 5


def random_containers(seed: int) -> tuple[dict[str, echobuf.Field], dict[str, Any]]:
    """A spec, and chains for its leaves; examples are those of `chains_for_tests`."""
    dice = random.Random(seed)
    height, width = dice.randint(5, 12), dice.randint(5, 40)
    dtype = dice.choice([np.uint8, np.uint8, np.float32])
    spec = {
        "image": echobuf.Field((height, width, 3), dtype),
        "label": echobuf.Field((), np.int64),
        "mask": echobuf.Field((height, width), np.uint8),
    }
    size = (height, width)
    moves: list[Any] = [_container(dice, _moves(size), 2)]
    if dice.random() < 0.5:
        size = (dice.randint(3, height), dice.randint(3, width))
        moves.insert(dice.randint(0, 1), t.RandomResizedCrop(size, scale=(0.3, 1)))
        if isinstance(moves[0], t.RandomResizedCrop):
            moves[1] = _container(dice, _moves(size), 2)
    transform = {"image": [*moves, *_changes(dice, integer=dtype == np.uint8)]}
    if dice.random() < 0.4:
        transform["mask"] = [t.Mask(), *moves]
    if dice.random() < 0.3:
        transform["view"] = [t.Source("image"), *transform["image"]]
    return spec, transform


def _container(dice: random.Random, kinds: list[Any], depth: int) -> t.Operation:
    def branch() -> Any:
        if depth and dice.random() < 0.3:
            return _container(dice, kinds, depth - 1)
        if dice.random() < 0.5:
            return dice.choice(kinds)()
        return [dice.choice(kinds)() for _ in range(dice.randint(1, 2))]

    branches = [branch() for _ in range(dice.randint(1, 3))]
    which = dice.randint(0, 2)
    if which == 0:
        return t.RandomApply(branches, dice.choice([0.3, 0.5, 0.8]))
    if which == 1:
        return t.RandomOrder(branches)
    weights = [dice.randint(1, 3) for _ in branches]
    return t.RandomChoice(branches, dice.choice([None, weights]))


def _moves(size: tuple[int, int]) -> list[Any]:
    return [
        lambda: t.RandomCrop(size, padding=2, fill=3),
        lambda: t.RandomCrop(size, padding=1, padding_mode="reflect"),
        t.RandomHorizontalFlip,
        t.RandomVerticalFlip,
        lambda: t.RandomResizedCrop(size, scale=(0.3, 1)),
        lambda: t.RandomRotation(40, fill=1, interpolation="bilinear"),
    ]


def _changes(dice: random.Random, *, integer: bool) -> list[Any]:
    kinds = [
        lambda: t.ColorJitter(0.4, 0.4, 0.4, 0.1),
        lambda: t.ColorJitter(contrast=0.5),
        lambda: t.RandomErasing(p=0.8),
        lambda: t.GaussianNoise(sigma=0.2),
    ]
    chain: list[Any] = [_container(dice, kinds, 2)]
    if dice.random() < 0.2:
        return chain
    if integer:
        chain.append(t.ToDtype(np.float32, scale=True))
    if dice.random() < 0.5:
        chain.append(_container(dice, [*kinds, lambda: t.Normalize(0.4, 0.3)], 1))
    if dice.random() < 0.6:
        chain.append(_switch(dice))
    if dice.random() < 0.5:
        chain.append(t.Normalize(0.4, 0.3))
    if dice.random() < 0.4:
        chain.append(t.ToDtype(dice.choice(["bfloat16", np.float16])))
    if dice.random() < 0.5:
        chain.append(t.ToChannelFirst())
    return chain


def _switch(dice: random.Random) -> t.Operation:
    mixes = [t.MixUp(num_classes=CLASSES), t.CutMix(num_classes=CLASSES)]
    which = dice.randint(0, 3)
    if which == 0:
        return t.RandomChoice(mixes)
    if which == 1:
        return t.RandomApply(dice.sample(mixes, 1), 0.6)
    if which == 2:
        return t.RandomApply([t.RandomChoice(mixes, [2, 1])], 0.7)
    return t.RandomChoice([t.RandomErasing(p=1.0), mixes[0], [], mixes[1]])
