"""Choices, tones, blur and automatic augmentation of clips: as of each frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from echobuf import transforms as T
from transform_engine import drawn, one

RANDOM = np.random.default_rng(4)
# Darker and darker: frames have other means, ranges and histograms.
CLIP = np.stack(
    [RANDOM.integers(0, 256 // part, (12, 14, 3), np.uint8) for part in (1, 2, 3, 5)]
)

OPERATIONS = [
    T.AutoContrast(),
    T.Equalize(),
    T.Grayscale(3),
    T.GaussianBlur(5),
    T.RandomPerspective(p=1.0),
    T.RandomAdjustSharpness(3.0, p=1.0),
    T.Resize(9, interpolation="bicubic"),
    T.RandomApply([T.ColorJitter(0.5, 0.5, 0.5, 0.2)], p=0.5),
    T.RandomChoice([T.RandomHorizontalFlip(1.0), T.RandomVerticalFlip(1.0), []]),
    T.RandomChoice([[T.RandomCrop(8), T.ColorJitter(0.4)], T.Resize((8, 8))]),
    T.RandomOrder([T.RandomRotation(20), T.ColorJitter(contrast=0.5), T.Equalize()]),
    T.RandAugment(),
    T.TrivialAugmentWide(),
    T.AutoAugment(),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=repr)
def test_frames_are_what_images_become(operation: T.Operation) -> None:
    chain = [T.RandomHorizontalFlip(), operation, T.ToDtype(np.float32, scale=True)]
    for seed in range(6):
        made = one(CLIP, chain, seed=seed)
        for frame, got in zip(CLIP, made, strict=True):
            np.testing.assert_array_equal(got, one(frame, chain, seed=seed))


@pytest.mark.parametrize("before", [[], [T.RandomCrop(9), T.ColorJitter(contrast=0.5)]])
def test_choices_of_mixes_and_their_partners(before: list[Any]) -> None:
    """The first frames are what images become; labels, too."""
    mixes = [T.MixUp(num_classes=4), T.CutMix(num_classes=4)]
    chain = [*before, T.ToDtype(np.float32, scale=True), T.RandomChoice(mixes)]
    examples = [{"x": np.roll(CLIP, i, axis=0), "label": np.int64(i)} for i in range(4)]
    stills = [{"x": e["x"][0], "label": e["label"]} for e in examples]
    options: dict[str, Any] = {"factor": 3, "seed": 5}
    of_clips = drawn(examples, {"x": chain}, **options)
    of_images = drawn(stills, {"x": chain}, **options)
    for clips, images in zip(of_clips, of_images, strict=True):
        np.testing.assert_array_equal(clips["x"][:, 0], images["x"])
        np.testing.assert_array_equal(clips["label"], images["label"])


def test_a_choice_first_takes_the_leaf_for_a_clip() -> None:
    chain = [T.RandomApply([T.GaussianBlur(3)], p=0.5), T.ToChannelFirst()]
    for seed in range(4):
        made = one(CLIP, chain, seed=seed)
        assert made.shape == (4, 3, 12, 14)
        for frame, got in zip(CLIP, made, strict=True):
            np.testing.assert_array_equal(got, one(frame, chain, seed=seed))


def test_a_choice_behind_a_window_of_time() -> None:
    chain = [T.RandomWindow(2), T.RandomApply([T.RandomVerticalFlip(1.0)])]
    wanted = [c[t : t + 2].tobytes() for c in (CLIP, CLIP[:, ::-1]) for t in range(3)]
    found = {one(CLIP, chain, seed=seed).tobytes() for seed in range(40)}
    assert found == set(wanted)
