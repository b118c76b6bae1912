"""Clips: one draw for all frames, through the engine and through the reference."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field, SpecError
from echobuf import transforms as T
from test_odd_arguments import BASE, ROWS
from transform_engine import Step, chain, drawn, one, rows
from transform_reference import Draw
from transform_reference.clips import transform_clip

RANDOM = np.random.default_rng(3)
CLIP = RANDOM.integers(0, 256, (4, 9, 11, 3), np.uint8)


SAME_IN_ALL_FRAMES = [
    T.RandomCrop(5),
    T.RandomHorizontalFlip(),
    T.RandomVerticalFlip(),
    T.RandomResizedCrop(6),
    T.RandomRotation(40),
    T.RandomAffine(20, translate=(0.2, 0.1), scale=(0.5, 2), shear=5),
    T.ColorJitter(0.5, 0.5, 0.5, 0.3),
    T.RandomErasing(p=0.7),
]


@pytest.mark.parametrize("operation", SAME_IN_ALL_FRAMES, ids=repr)
def test_all_frames_get_the_same_choices(operation: T.Operation) -> None:
    """Equal frames stay equal, and draws differ."""
    still = np.repeat(CLIP[:1], 4, axis=0)
    made = [
        clip for _, clip in rows([still], [operation], factor=8, batch_size=1, window=8)
    ]
    for clip in made:
        for frame in clip[1:]:
            np.testing.assert_array_equal(frame, clip[0])
    assert len({clip.tobytes() for clip in made}) > 1


@pytest.mark.parametrize(
    "operation",
    [T.GaussianNoise(0.5, 0.1, clip=False), T.RandomErasing(p=1.0, value="random")],
    ids=repr,
)
def test_noise_differs_from_frame_to_frame(operation: T.Operation) -> None:
    still = np.zeros((4, 8, 9, 3), np.float32)
    made = one(still, [operation])
    changed = [frame[frame != 0] for frame in made]
    assert len({len(values) for values in changed}) == 1
    assert len({values.tobytes() for values in changed}) == 4


def test_a_clip_of_one_frame_is_an_image() -> None:
    steps = [T.RandomResizedCrop(6), T.ColorJitter(0.4, 0.4, 0.4), T.ToDtype("float32")]
    steps += [T.GaussianNoise(), T.ToChannelFirst()]
    for seed in range(5):
        image = one(CLIP[0], steps, seed=seed)
        clip = one(CLIP[:1], steps, seed=seed)
        np.testing.assert_array_equal(clip[0], image)


def test_the_contrast_is_about_the_mean_of_each_frame() -> None:
    levels = np.array([0.1, 0.3, 0.8, 1.0], np.float32)
    clip = np.repeat(levels, 6 * 7 * 3).reshape(4, 6, 7, 3)
    made = one(clip, [T.ColorJitter(contrast=(0.25, 0.25))])
    np.testing.assert_allclose(made, clip, atol=1e-4)  # each is its own mean


def test_channels_first() -> None:
    made = one(CLIP, [T.CenterCrop(6), T.ToChannelFirst()])
    assert made.shape == (4, 3, 6, 6)
    np.testing.assert_array_equal(made.transpose(0, 2, 3, 1), CLIP[:, 2:8, 2:8])
    again = one(np.ascontiguousarray(CLIP.transpose(0, 3, 1, 2)), [T.ToChannelFirst()])
    np.testing.assert_array_equal(again.transpose(0, 2, 3, 1), CLIP)
    grey = one(CLIP[..., 0].copy(), [T.Layout("THW"), T.ToChannelFirst()])
    np.testing.assert_array_equal(grey, CLIP[:, None, :, :, 0])


@pytest.mark.parametrize(
    ("shape", "order"),
    [((5, 7, 8, 3), "THWC"), ((5, 3, 7, 8), "TCHW"), ((5, 3, 7, 1), "THWC")],
)
def test_the_shape_says_how_a_clip_lies(shape: tuple[int, ...], order: str) -> None:
    clip = RANDOM.integers(0, 256, shape, np.uint8)
    steps = [T.RandomCrop((3, 4)), T.ColorJitter(0.5, 0.5)]
    # A Layout is an operation, too: put last, it leaves the others their numbers.
    given = one(clip, [*steps, T.Layout(order)])
    np.testing.assert_array_equal(one(clip, steps), given)


def test_a_window_of_time_first() -> None:
    """The window is a stage of its own, in front of those that see frames."""
    steps: list[Any] = [T.RandomWindow(3), T.RandomCrop(5)]
    starts = set()
    for _, made in rows([CLIP], steps, factor=16, batch_size=1, window=16, seed=4):
        places = [
            (t, y, x)
            for t in range(2)
            for y in range(5)
            for x in range(7)
            if np.array_equal(CLIP[t : t + 3, y : y + 5, x : x + 5], made)
        ]
        assert len(places) == 1
        starts.add(places[0])
    assert len(starts) > 3
    assert {t for t, _, _ in starts} == {0, 1}


def test_masks_follow_their_clip() -> None:
    crop, flip = T.RandomResizedCrop(6, interpolation="nearest"), T.RandomVerticalFlip()
    classes = CLIP[..., 0] // 16
    examples = [{"clip": CLIP, "mask": classes}]
    transform = {
        "clip": [crop, flip],
        "mask": [T.Layout("THW"), T.Mask(), crop, flip],
    }
    for batch in drawn(examples, transform, factor=4, batch_size=1, window=4):
        np.testing.assert_array_equal(batch["mask"], batch["clip"][..., 0] // 16)


@pytest.mark.parametrize("kind", [T.MixUp, T.CutMix])
def test_a_mix_is_the_same_in_all_frames(kind: Any) -> None:
    """Of clips of one colour each, mixed with their partners."""
    count = 4
    examples = [
        {"clip": np.full((3, 6, 7, 3), i, np.float32), "label": np.int64(i)}
        for i in range(count)
    ]
    mix = kind(num_classes=count)
    batches = drawn(examples, {"clip": [mix]}, factor=3, seed=2)
    mixed = 0
    for batch in batches:
        for clip, label in zip(batch["clip"], batch["label"], strict=True):
            for frame in clip[1:]:
                np.testing.assert_array_equal(frame, clip[0])
            # The label is the share of each clip; so is the mean of what is mixed.
            mean = np.dot(label, np.arange(count))
            assert clip.mean() == pytest.approx(mean, abs=1e-5)
            mixed += np.count_nonzero(label) > 1
    assert mixed


def test_partners_go_through_earlier_stages_frame_by_frame() -> None:
    """A mix behind stages of its own, against a clip made of images."""
    steps = [T.RandomResizedCrop(6), T.ColorJitter(0.4, 0.4, 0.4), T.ToDtype("float32")]
    examples = [{"x": np.roll(CLIP, i, axis=0), "label": np.int64(i)} for i in range(4)]
    stills = [{"x": e["x"][0], "label": e["label"]} for e in examples]
    mix = T.CutMix(num_classes=4)
    options: dict[str, Any] = {"factor": 3, "seed": 5}
    of_clips = drawn(examples, {"x": [*steps, mix]}, **options)
    of_images = drawn(stills, {"x": [*steps, mix]}, **options)
    for clips_, images_ in zip(of_clips, of_images, strict=True):
        np.testing.assert_array_equal(clips_["x"][:, 0], images_["x"])
        np.testing.assert_array_equal(clips_["label"], images_["label"])


def test_rows_of_whole_batches() -> None:
    spec = {"x": Field((3, 4, 9, 11, 3), np.uint8)}
    steps: list[Step] = [("RandomCrop", {"size": 5}), ("ToDtype", {"dtype": "float32"})]
    options: dict[str, Any] = {"unit": "batch", "window": 2, "factor": 2, "seed": 9}
    batch = np.stack([CLIP, CLIP[::-1], CLIP[:, ::-1]])
    with EchoBuffer(spec, transform={"x": chain(steps)}, **options) as buffer:
        buffer.put({"x": batch})
        buffer.close()
        for draw, made in enumerate(buffer):
            for row in range(3):
                want = batch[row]
                for op, (name, given_) in enumerate(steps):
                    words = Draw(seed=9, epoch=0, draw=draw, op=op, row=row)
                    want = transform_clip(name, given_, words, want)
                np.testing.assert_array_equal(made["x"][row], want)


def test_functions_see_whole_clips() -> None:
    seen = []

    def middle(batch: np.ndarray) -> np.ndarray:
        seen.append(batch.shape)
        return batch[:, 2]

    steps = [T.RandomCrop(5), T.ToChannelFirst(), T.Lambda(middle, shape=(3, 5, 5))]
    assert one(CLIP, steps).shape == (3, 5, 5)
    assert seen == [(1, 4, 3, 5, 5)]


REFUSED = [
    ((4, 5, 5, 7), [T.CenterCrop(2)], r"1 to 4 channels.*Layout\(\"THWC\"\)"),
    ((2, 4, 5, 5, 3), [T.CenterCrop(2)], "is for images.*clips"),
    ((4, 5, 5, 3), [T.Layout("HWC")], "takes 3 axes"),
    ((5, 5, 3), [T.Layout("THWC")], "takes 4 axes"),
    ((4, 5, 5, 3), [T.CenterCrop(2), T.Layout("TCHW")], "too late.*THWC"),
    ((0, 5, 5, 3), [T.CenterCrop(2)], "pixels"),
    ((4, 5, 5, 3), [T.CenterCrop(2), T.RandomWindow(2)], "not for images"),
    ((4, 5, 5, 17), [T.Layout("THWC")], "16 channels at most"),
    ((4, 5, 5, 3), [T.CenterCrop(6)], "larger"),
    ((4, 20_000, 20_000, 1), [T.CenterCrop(2)], "1,073,741,824 numbers"),
]


@pytest.mark.parametrize(("shape", "steps", "message"), REFUSED)
def test_a_chain_that_does_not_fit(
    shape: tuple[int, ...], steps: list[T.Operation], message: str
) -> None:
    with pytest.raises(SpecError, match=f"(?s){message}"):
        EchoBuffer(
            {"x": Field(shape, np.uint8)},
            batch_size=2,
            window=4,
            transform={"x": steps},
        )


LEAVES = {
    "clip": np.full((2, 5, 4, 3), 0.5, np.float32),
    "planes": np.full((2, 3, 5, 4), 0.5, np.float32),
    "mel": np.full((1, 7, 9), 0.5, np.float32),
}


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("name", sorted({*T.__all__} - {"Operation", *ROWS}))
def test_every_operation_takes_a_clip_or_says_why_not(name: str, leaf: str) -> None:
    operation = getattr(T, name)(**BASE.get(name, {}))
    refused = ""
    try:
        made = one(LEAVES[leaf], [operation])
    except SpecError as error:
        refused = str(error)
    if refused:
        assert re.match(rf"`transform\['x'\]\[0\]`, {name}.*float32\[", refused)
        return
    assert made.ndim == LEAVES[leaf].ndim
    again = one(LEAVES[leaf], [operation])
    np.testing.assert_array_equal(made, again)
