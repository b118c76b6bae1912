"""Boxes and points that follow an image: the engine against the reference."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import EchoBuffer, Field
from echobuf import transforms as T
from helpers import WAIT_S, Worker
from transform_chains import (
    DTYPES,
    Image,
    affine,
    any_jitter,
    center_crop,
    chains,
    erasing,
    flip,
    images,
    nearest,
    noise,
    pixels,
    random_crop,
    resize,
    resized_crop,
    rotation,
    to_dtype,
)
from transform_engine import Step, chain, drawn
from transform_reference import Draw, parameters, points

SEED = 5
DRAWS = 4


def crop(draw: st.DrawFn, image: Image) -> Step:
    """Of a border that can be followed: none mirrors."""
    name, options = random_crop(draw, image)
    if options["padding_mode"] in ("reflect", "symmetric"):
        options["padding_mode"] = "edge"
    return name, options


EXACT = (crop, center_crop, flip, nearest, resize, resized_crop)
STILL = (any_jitter, erasing, noise, to_dtype)
WARPS = (rotation, affine)


def rows_of(image: Image, numbers: int, seed: int, outside: float) -> np.ndarray:
    """Rows in and around an image, whole ones, and some that are no box or point."""
    rng = np.random.default_rng(seed)
    size = np.array([image.width, image.height] * (numbers // 2), np.float32)
    rows = (rng.random((12, numbers), np.float32) * 1.5 - np.float32(0.25)) * size
    if numbers == 4:
        ends = rows.reshape(-1, 2, 2)
        rows[2:] = np.concatenate([ends.min(1), ends.max(1)], 1)[2:]
        rows[3] = [0, 0, image.width, image.height]
    rows[4:8] = np.round(rows[4:8])
    rows[8] = outside
    rows[9, seed % numbers] = math.nan
    rows[10] = math.inf
    return rows


def wanted(
    rows: np.ndarray,
    image: Image,
    steps: list[Step],
    draw: int,
    first: int = 1,
    **kinds: float,
) -> np.ndarray:
    """Return the reference's rows; operations are numbered from `first` on."""
    shape: tuple[int, ...] = (image.height, image.width, image.channels)
    outside = kinds.get("outside", -1.0)
    for op, (name, options) in enumerate(steps, first):
        if name in points.FOLLOW:
            words = Draw(seed=SEED, epoch=0, draw=draw, op=op)
            what = parameters(name, options, words, shape)
            rows, shape = points.follow(name, rows, what, shape, outside=outside)
    return points.sanitize(rows, shape, **kinds)


def engine(
    image: Image,
    steps: list[Step],
    leaves: dict[str, tuple[Any, np.ndarray]],
    operations: list[Any] | None = None,
) -> list[dict[str, np.ndarray]]:
    """Draws of leaves that follow an image, each with the operation that says so."""
    [picture] = pixels(image, 1, 3)
    operations = chain(steps) if operations is None else operations
    transform = {"image": [T.Layout("HWC"), *operations]}
    transform |= {name: [op, *operations] for name, (op, _) in leaves.items()}
    example = {"image": picture} | {name: rows for name, (_, rows) in leaves.items()}
    [batch] = drawn([example] * DRAWS, transform, batch_size=DRAWS, seed=SEED)
    return [{name: batch[name][i] for name in batch} for i in range(DRAWS)]


@settings(max_examples=150)
@given(st.data())
@pytest.mark.parametrize("numbers", [4, 2])
@pytest.mark.parametrize("warped", [False, True])
def test_random_chains(numbers: int, warped: bool, data: st.DataObject) -> None:
    image = data.draw(images(DTYPES))
    at_first = replace(image)
    kinds = EXACT + STILL + (WARPS * 2 if warped else ())
    steps = data.draw(chains(image, kinds))
    outside = data.draw(st.sampled_from([-1.0, 0.0, 7.5, math.nan]))
    least = data.draw(st.sampled_from([0.0, 1.0, 2.5])) if numbers == 4 else None
    more = {} if least is None else {"min_size": least}
    kind = T.BoundingBoxes if numbers == 4 else T.Keypoints
    rows = rows_of(at_first, numbers, data.draw(st.integers(0, 9)), outside)
    # "a" comes before "image": so the first operation is number 1.
    leaves = {"a": (kind("image", outside, **more), rows)}
    for draw, made in enumerate(engine(at_first, steps, leaves)):

        def reference(rows: np.ndarray, draw: int = draw) -> np.ndarray:
            return wanted(rows, at_first, steps, draw, outside=outside, **more)

        want, got = reference(rows), made["a"]
        assert got.dtype == np.float32
        if not any(name in ("RandomRotation", "RandomAffine") for name, _ in steps):
            np.testing.assert_array_equal(got, want)
            continue
        # Rows at an edge, or without an area, are decided by the last bits of sines.
        near = np.full(numbers, 1e-3, np.float32)
        grown = near * np.repeat([-1, 1], numbers // 2)
        marks = [
            points.marked(reference((rows + by).astype(np.float32)), outside)
            for by in (near, -near, grown, -grown)
        ]
        sure = (marks == marks[0]).all(0)
        np.testing.assert_allclose(got[sure], want[sure], rtol=1e-5, atol=2e-4)


@pytest.mark.parametrize("dtype", ["int64", "int16", "uint8", "float16", "float64"])
@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 4), (2, 3, 4)])
def test_any_real_dtype_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    rows = np.broadcast_to(np.array([1, 2, 6, 5], dtype), shape)
    image = Image(9, 7, 3, np.dtype("uint8"))
    steps = [("RandomHorizontalFlip", {"p": 1.0}), ("Resize", {"size": (18, 14)})]
    [made, *_] = engine(image, steps, {"a": (T.BoundingBoxes("image"), rows)})
    want = np.array([2, 4, 12, 10], np.float32)
    assert made["a"].dtype == np.float32
    np.testing.assert_array_equal(made["a"], np.broadcast_to(want, shape))


def test_points_of_one_and_more_axes() -> None:
    image = Image(9, 7, 3, np.dtype("uint8"))
    rows = np.array([[[0, 0], [6, 8]], [[6.5, 1], [2, 9]]], np.float32)
    leaves = {
        "a": (T.Keypoints("image"), rows),
        "b": (T.Keypoints("image"), rows[0, 1]),
    }
    [made, *_] = engine(image, [("RandomHorizontalFlip", {"p": 1.0})], leaves)
    # 6 - 6.5 lies outside, as 9 does.
    want = [[[6, 0], [0, 8]], [[-1, -1], [-1, -1]]]
    np.testing.assert_array_equal(made["a"], np.array(want, np.float32))
    np.testing.assert_array_equal(made["b"], want[0][1])


def test_long_chains_are_cut_into_stages() -> None:
    """Of more operations than a stage has, in integers."""
    image = Image(12, 14, 3, np.dtype("uint8"))
    steps: list[Step] = [("RandomHorizontalFlip", {"p": 0.5})] * 15
    steps += [("RandomCrop", {"size": 12, "padding": 1})] * 15
    rows = np.array([[1, 2, 6, 5], [-1, -1, -1, -1], [0, 0, 14, 12]])
    leaves = {"a": (T.BoundingBoxes("image"), rows)}
    for draw, made in enumerate(engine(image, steps, leaves)):
        want = wanted(rows.astype(np.float32), image, steps, draw)
        np.testing.assert_array_equal(made["a"], want)


def test_a_box_that_was_lost_stays_lost() -> None:
    """Affine maps would give a box without area, at the edge, an area."""
    image = Image(20, 20, 3, np.dtype("uint8"))
    steps: list[Step] = [
        ("CenterCrop", {"size": 10}),
        ("RandomRotation", {"degrees": (45, 45)}),
        ("RandomCrop", {"size": 30, "padding": 10}),
    ]
    rows = np.array([[0, 0, 4, 20], [-1, -1, -1, -1], [4, 4, 16, 16]], np.float32)
    dots = np.array([[4, 9], [-1, -1], [10, 10]], np.float32)
    leaves = {
        "a": (T.BoundingBoxes("image"), rows),
        "b": (T.Keypoints("image"), dots),
    }
    [made, *_] = engine(image, steps, leaves)
    assert (made["a"][:2] == -1).all()
    assert (made["b"][:2] == -1).all()
    np.testing.assert_allclose(made["a"][2], [10, 10, 20, 20], atol=1e-4)
    np.testing.assert_allclose(made["b"][2], [15, 15], atol=1e-4)


def test_the_smallest_size_is_that_of_the_result() -> None:
    """A window cuts a box to less, and makes it larger again."""
    image = Image(8, 8, 1, np.dtype("uint8"))
    rows = np.array([[1.5, 0, 2.5, 8], [3.5, 3.5, 4.25, 5]], np.float32)
    steps: list[Step] = [("CenterCrop", {"size": 4}), ("Resize", {"size": 16})]
    for least, want in ((1.0, [True, True]), (2.5, [False, True]), (4.5, [False] * 2)):
        boxes = T.BoundingBoxes("image", min_size=least)
        [made, *_] = engine(image, steps, {"a": (boxes, rows)})
        assert list(made["a"][:, 0] >= 0) == want, least
    np.testing.assert_array_equal(
        engine(image, steps, {"a": (T.BoundingBoxes("image"), rows)})[0]["a"],
        [[0, 0, 2, 16], [6, 6, 9, 12]],
    )


# ---- leaves


def test_a_second_view_and_two_images_of_different_sizes() -> None:
    """Each leaf follows the image that it names, with the operations of its chain."""
    rng = np.random.default_rng(2)
    spec = {
        "boxes": Field((3, 4), np.float32),
        "image": Field((3, 20, 30), np.uint8),
        "small": Field((8, 9, 3), np.float32),
        "spots": Field((5, 2), np.float32),
    }
    first: list[Step] = [
        ("RandomResizedCrop", {"size": 12}),
        ("RandomHorizontalFlip", {}),
    ]
    second: list[Step] = [("RandomCrop", {"size": 15}), ("RandomVerticalFlip", {})]
    other: list[Step] = [("RandomCrop", {"size": 6}), ("RandomHorizontalFlip", {})]
    one, two, three = chain(first), chain(second), chain(other)
    transform = {
        "boxes": [T.BoundingBoxes("image"), *one],
        "image": one,
        "small": three,
        "spots": [T.Keypoints("small"), *three],
        "view": [T.Source("image"), *two],
        "view_boxes": [T.Source("boxes"), T.BoundingBoxes("view"), *two],
    }
    example = {name: rng.random(f.shape) * 9 for name, f in spec.items()}
    example["boxes"][:, 2:] += 9
    example = {name: x.astype(spec[name].dtype) for name, x in example.items()}
    [batch] = drawn([example] * 8, transform, batch_size=8, seed=SEED)
    image, small = Image(20, 30, 3, np.dtype("u1")), Image(8, 9, 3, np.dtype("f4"))
    for draw in range(8):
        # Numbers go on leaf by leaf: 0 and 5 are those that say what a leaf is.
        for name, of, rows, steps, number in (
            ("boxes", image, example["boxes"], first, 1),
            ("spots", small, example["spots"], other, 3),
            ("view_boxes", image, example["boxes"], second, 6),
        ):
            want = wanted(rows, of, steps, draw, number)
            np.testing.assert_array_equal(batch[name][draw], want)


def test_an_axis_of_channels_that_only_the_image_tells() -> None:
    """The image's chain says its layout; 9 channels are no guess."""
    spec = {"image": Field((9, 20, 30), np.uint8), "boxes": Field((4,), np.float32)}
    flip = T.RandomHorizontalFlip(p=1.0)
    transform = {
        "image": [T.Layout("CHW"), flip],
        "boxes": [T.BoundingBoxes("image"), flip],
    }
    example = {"image": np.zeros((9, 20, 30), np.uint8)}
    example["boxes"] = np.array([0, 0, 10, 10], np.float32)
    [batch] = drawn([example], transform, batch_size=1)
    np.testing.assert_array_equal(batch["boxes"], [[20, 0, 30, 10]])
    assert list(spec) == ["image", "boxes"]


def test_whole_batches() -> None:
    """With unit="batch" each row of a batch has its own choices, as its image has."""
    rng = np.random.default_rng(3)
    boxes = np.tile(np.array([1, 2, 7, 9], np.float32), (6, 5, 1))
    records = {"boxes": boxes, "image": rng.integers(0, 9, (6, 12, 10, 3), np.uint8)}
    spec = {name: Field(x.shape, x.dtype) for name, x in records.items()}
    flip = T.RandomHorizontalFlip()
    transform = {"image": [flip], "boxes": [T.BoundingBoxes("image"), flip]}
    options: dict[str, Any] = {"unit": "batch", "window": 4, "factor": 1}
    with EchoBuffer(spec, transform=transform, batch_size=None, **options) as buffer:
        buffer.put(records, timeout=WAIT_S)
        buffer.close()
        [batch] = list(buffer)
    flipped = [
        (a == b[:, ::-1]).all()
        for a, b in zip(batch["image"], records["image"], strict=True)
    ]
    assert len(set(flipped)) == 2
    for row, on in zip(batch["boxes"], flipped, strict=True):
        want = [3, 2, 9, 9] if on else [1, 2, 7, 9]
        np.testing.assert_array_equal(row, np.tile(np.array(want), (5, 1)))


def test_functions_on_batches_come_last() -> None:
    """They get float32 boxes, and may make anything of them."""

    def centres(boxes: Any) -> Any:
        assert boxes.dtype == np.float32
        return (boxes[..., :2] + boxes[..., 2:]) / 2

    function = T.Lambda(centres, shape=(3, 2))
    spec = {"image": Field((9, 7, 3), np.uint8), "boxes": Field((3, 4), np.int64)}
    transform = {"boxes": [T.BoundingBoxes("image"), function]}
    example = {name: np.ones(f.shape, f.dtype) for name, f in spec.items()}
    example["boxes"][:] = [1, 2, 5, 4]
    [batch] = drawn([example], transform, batch_size=1)
    np.testing.assert_array_equal(batch["boxes"], np.full((1, 3, 2), 3, np.float32))


# ---- keyed


def keyed(rows: dict[str, np.ndarray], **options: Any) -> EchoBuffer:
    """A buffer of ten records, twice each, whose boxes follow an image."""
    spec = {name: Field(leaf.shape[1:], leaf.dtype) for name, leaf in rows.items()}
    operations = [T.RandomResizedCrop(8), T.RandomHorizontalFlip(), T.RandomRotation(9)]
    transform = {"image": operations, "boxes": [T.BoundingBoxes("image"), *operations]}
    options = {"batch_size": 4, "window": 5, "factor": 2, "seed": 3} | options
    return EchoBuffer(spec, transform=transform, **options)


def stored() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    corners = np.sort(rng.random((10, 6, 2, 2), np.float32) * 12, 2)
    image = rng.integers(0, 256, (10, 12, 14, 3), np.uint8)
    return {"boxes": corners.reshape(10, 6, 4), "image": image}


def fed(buffer: EchoBuffer, first: int = 0) -> Worker:
    def put() -> None:
        rows = stored()
        for i in range(first, 10):
            example = {name: leaf[i] for name, leaf in rows.items()}
            buffer.put(example, timeout=WAIT_S)
        buffer.close()

    return Worker(put)


def all_boxes(batches: Any) -> np.ndarray:
    return np.concatenate([batch["boxes"] for batch in batches])


@pytest.mark.parametrize("options", [{"batch_size": 3}, {"prefetch": 2}], ids=str)
def test_batches_and_threads_do_not_matter(options: dict[str, int]) -> None:
    made = []
    for more in ({}, options):
        with keyed(stored(), **more) as buffer:
            worker = fed(buffer)
            made.append(all_boxes(buffer))
            worker.result()
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize("after", [1, 3])
def test_resumed(after: int) -> None:
    with keyed(stored()) as buffer:
        worker = fed(buffer)
        for _ in range(after):
            buffer.next_batch()
        state = buffer.state_dict()
        left = all_boxes(buffer)
        worker.result()
    with keyed(stored()) as buffer:
        buffer.load_state_dict(state)
        worker = fed(buffer, state["fresh_offset"])
        np.testing.assert_array_equal(all_boxes(buffer), left)
        worker.result()
