"""Clips whose frames are what images become, in chains of several stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from echobuf import transforms as T
from transform_engine import drawn, one
from transform_reference import Draw, transform

SEEDS = st.integers(0, 2**64 - 1)


def _stages() -> list[T.Operation]:
    """Return new operations of which two in a row are two stages."""
    return [
        T.ColorJitter(contrast=0.5, hue=0.2),
        T.ColorJitter(0.4),
        T.AutoContrast(),
        T.RandomEqualize(),
        T.RandomInvert(),
        T.GaussianBlur(3),
        T.RandomAdjustSharpness(3.0),
        T.RandomRotation(30, interpolation="bilinear"),
        T.RandomPerspective(p=0.9),
        T.RandomResizedCrop((7, 6)),
        T.Resize(9, interpolation="bicubic"),
        T.RandomCrop(6, padding=2, pad_if_needed=True),
        T.RandomHorizontalFlip(),
        T.Grayscale(3),
        T.RandomGrayscale(0.5),
        T.RandomApply([T.GaussianBlur(3), T.ColorJitter(contrast=0.5)], p=0.6),
        T.RandomChoice([T.RandomVerticalFlip(1.0), [], T.Equalize()]),
        T.RandomChoice([[T.RandomCrop(3), T.ColorJitter(0.4)], T.Resize((3, 3))]),
        T.RandomOrder([T.RandomRotation(20), T.AutoContrast()]),
        T.TrivialAugmentWide(),
        T.RandAugment(1),
        T.AutoAugment(),
    ]


_AUTOMATIC = (T.AutoAugment, T.RandAugment, T.TrivialAugmentWide)


@st.composite
def chains(draw: st.DrawFn) -> list[T.Operation]:
    """Two operations or more; the last ones now and then make floats."""
    picks = st.lists(st.integers(0, len(_stages()) - 1), min_size=2, max_size=5)
    chain = [_stages()[i] for i in draw(picks)]
    # Each is a hundred passes or so, of the 512 that a chain may have.
    assume(sum(isinstance(each, _AUTOMATIC) for each in chain) <= 2)
    if draw(st.booleans()):
        chain.append(T.ToDtype(np.float32, scale=True))
        chain.append(T.Normalize([0.4] * 3, [0.3] * 3))
    return chain


def clip_of(draw: st.DataObject, frames: int, order: str) -> np.ndarray:
    """Return a clip of frames that have other means, ranges and histograms each."""
    height, width = draw.draw(st.integers(4, 12)), draw.draw(st.integers(4, 14))
    rng = np.random.default_rng(draw.draw(st.integers(0, 99)))
    clip = rng.integers(0, 256, (frames, height, width, 3), np.uint8)
    clip //= np.arange(1, frames + 1, dtype=np.uint8).reshape(-1, 1, 1, 1)
    if order == "TCHW":
        return np.ascontiguousarray(clip.transpose(0, 3, 1, 2))
    return clip


@settings(max_examples=60)
@given(
    st.data(),
    st.integers(1, 4),
    st.integers(0, 3),
    chains(),
    st.sampled_from(["THWC", "TCHW"]),
    SEEDS,
)
def test_frames_of_a_window_are_what_images_become(
    data: st.DataObject,
    length: int,
    more: int,
    chain: list[T.Operation],
    order: str,
    seed: int,
) -> None:
    """Two `Layout` in front of an image leave its operations their numbers."""
    clip = clip_of(data, length + more, order)
    made = one(clip, [T.RandomWindow(length), T.Layout(order), *chain], seed=seed)
    flat = clip.reshape(len(clip), -1, 1)
    words = Draw(seed=seed, epoch=0, draw=0, op=0)
    window = transform("RandomWindow", {"length": length}, words, flat)
    layout = [T.Layout(order[1:]), T.Layout(order[1:])]
    assert len(made) == length
    for frame, got in zip(window, made, strict=True):
        image = np.ascontiguousarray(frame.reshape(clip.shape[1:]))
        np.testing.assert_array_equal(got, one(image, [*layout, *chain], seed=seed))


@settings(max_examples=30)
@given(st.data(), chains(), SEEDS)
def test_windows_by_chance(
    data: st.DataObject, chain: list[T.Operation], seed: int
) -> None:
    """A container of windows takes one of them; the frames are what images become."""
    clip = clip_of(data, 5, "THWC")
    windows = [T.RandomWindow(3), [T.RandomWindow(4), T.RandomWindow(3)]]
    choice = T.RandomChoice(windows)
    window = one(clip, [choice], seed=seed)
    assert any(np.array_equal(window, clip[i : i + 3]) for i in range(3))
    made = one(clip, [choice, T.Layout("THWC"), *chain], seed=seed)
    layouts = [T.Layout("HWC") for _ in range(5)]  # as many as operations before
    for frame, got in zip(window, made, strict=True):
        np.testing.assert_array_equal(got, one(frame, [*layouts, *chain], seed=seed))


@settings(max_examples=30)
@given(st.data(), chains(), st.integers(2, 4), SEEDS)
def test_a_container_first_takes_the_leaf_for_a_clip(
    data: st.DataObject, chain: list[T.Operation], frames: int, seed: int
) -> None:
    """An empty branch copies all frames."""
    clip = clip_of(data, frames, "THWC")
    first: list[Any] = [T.RandomChoice([[], T.GaussianBlur(3)])]
    first.append(T.RandomApply([T.RandomVerticalFlip(1.0)], 0.5))
    made = one(clip, [*first, *chain], seed=seed)
    for frame, got in zip(clip, made, strict=True):
        np.testing.assert_array_equal(got, one(frame, [*first, *chain], seed=seed))


# Darker and darker: frames have other means, ranges and histograms.
CLIP = np.stack(
    [
        np.random.default_rng(4).integers(0, 256 // part, (12, 14, 3), np.uint8)
        for part in (1, 2, 3, 5)
    ]
)


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


def test_a_choice_behind_a_window_of_time() -> None:
    chain = [T.RandomWindow(2), T.RandomApply([T.RandomVerticalFlip(1.0)])]
    wanted = [c[t : t + 2].tobytes() for c in (CLIP, CLIP[:, ::-1]) for t in range(3)]
    found = {one(CLIP, chain, seed=seed).tobytes() for seed in range(40)}
    assert found == set(wanted)
