"""NaN, infinities, huge numbers and empty leaves: defined, and nothing else touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from echobuf import transforms as T
from transform_engine import one, rows

ODD = [np.nan, np.inf, -np.inf, 3e38, -3e38, -0.5, 1e-44]
FLOAT_OPERATIONS = [
    T.RandomCrop(4, padding=1, fill=0.5),
    T.Resize(5),
    T.RandomResizedCrop(3),
    T.RandomRotation(30, interpolation="bilinear"),
    T.RandomAffine(30, scale=(0.5, 2.0), shear=20),
    T.ColorJitter(0.5, 0.5, 0.5, 0.5),
    T.RandomErasing(1.0, value="random"),
    T.Normalize(0.5, 0.1),
    T.ToDtype(np.float16),
    T.ToDtype("bfloat16"),
    T.GaussianNoise(),
    T.RandomGain(),
    T.MixUp(labels=None),
    T.CutMix(labels=None),
]


@pytest.mark.parametrize(
    "operation", FLOAT_OPERATIONS, ids=lambda op: type(op).__name__
)
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_image_does_not_change_others(operation: Any, odd: float) -> None:
    """Nor does it depend on how often, or beside what, it is drawn."""
    random = np.random.default_rng(0)
    good = random.random((4, 6, 5, 3), np.float32)
    bad = good.copy()
    bad[1, 2, 3] = odd
    mixes = isinstance(operation, T.MixUp | T.CutMix)
    made = [rows(list(leaf), [operation], batch_size=4, seed=3) for leaf in (good, bad)]
    again = rows(list(bad), [operation], batch_size=1, seed=3)
    for draws in zip(*made, again, strict=True):
        number = draws[0][0]
        want, got, same = (row.astype(np.float32) for _, row in draws)
        np.testing.assert_array_equal(got, same)
        if number != 1 and not mixes:
            np.testing.assert_array_equal(got, want)
            assert np.isfinite(got).all()


@pytest.mark.parametrize("factor", [0, 1e6])
def test_factors_of_uint8_are_bounded(factor: float) -> None:
    image = np.random.default_rng(0).integers(0, 256, (6, 5, 3), np.uint8)
    for name in ("brightness", "contrast", "saturation"):
        out = one(image, [T.ColorJitter(**{name: (factor, factor)})])
        assert out.dtype == np.uint8
    white = one(image, [T.ColorJitter(brightness=(1e6, 1e6))])
    np.testing.assert_array_equal(white, np.where(image > 0, 255, 0))


@pytest.mark.parametrize(("mean", "level"), [(1e30, 255), (-1e30, 0)])
def test_noise_beyond_all_bounds(mean: float, level: int) -> None:
    image = np.full((3, 3, 1), 100, np.uint8)
    assert (one(image, [T.GaussianNoise(mean=mean)]) == level).all()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (3, 0, 2)])
def test_empty_leaves(shape: tuple[int, ...]) -> None:
    leaf = np.zeros(shape, np.float32)
    made = one(leaf, [T.GaussianNoise(clip=False)] if len(shape) < 3 else [])
    assert made.shape == shape
    if shape[0]:
        assert one(leaf, [T.RandomWindow(2)]).shape == (2, *shape[1:])


def test_one_pixel() -> None:
    pixel = np.array([[[7, 8, 9]]], np.uint8)
    chain = [T.Layout("HWC"), T.RandomHorizontalFlip(1.0), T.RandomVerticalFlip(1.0)]
    chain += [T.Resize((3, 2)), T.RandomRotation(10, interpolation="nearest")]
    assert (one(pixel, chain)[1, 1] == pixel).all()


@pytest.mark.parametrize("itemsize", range(1, 20))
def test_elements_of_any_size_are_moved_whole(itemsize: int) -> None:
    """Structured numbers, complex ones and those of the other byte order, too."""
    dtype = np.dtype([(f"b{i}", np.uint8) for i in range(itemsize)])
    raw = np.arange(4 * 5 * 2 * itemsize, dtype=np.uint8)
    leaf = raw.view(dtype).reshape(4, 5, 2)
    chain = [T.Layout("HWC"), T.RandomHorizontalFlip(1.0), T.ToChannelFirst()]
    made = one(leaf, chain)
    np.testing.assert_array_equal(made, leaf[:, ::-1].transpose(2, 0, 1))


@pytest.mark.parametrize("dtype", [">f4", ">i2", "c16", "?", "f8", "u8", "m8[s]"])
def test_windows_of_any_dtype(dtype: str) -> None:
    leaf = np.arange(24).astype(np.dtype(dtype)).reshape(4, 6)
    made = one(leaf, [T.RandomWindow(2), T.RandomWindow(6, axis=-1)])
    assert made.dtype == leaf.dtype
    assert any((made == leaf[i : i + 2]).all() for i in range(3))


def test_windows_along_both_axes() -> None:
    leaf = np.arange(4 * 3 * 5).reshape(4, 3, 5)
    for first, second in ((0, -1), (-1, 0)):
        lengths = {0: 2, -1: 3}
        chain = [T.RandomWindow(lengths[axis], axis=axis) for axis in (first, second)]
        for _, made in rows([leaf] * 6, chain, batch_size=6):
            windows = np.lib.stride_tricks.sliding_window_view(leaf, (2, 3, 3))
            assert (windows == made).all(axis=(-1, -2, -3)).any()


@pytest.mark.parametrize("scale", [False, True])
def test_tokens_are_hidden_before_they_become_floats(scale: bool) -> None:
    tokens = np.arange(50, dtype=np.int32)
    mask = T.TokenMask(7, 50, p=1.0, p_mask=1.0, p_random=0.0)
    made = one(tokens, [mask, T.ToDtype(np.float32, scale=scale)])
    np.testing.assert_array_equal(made, np.float32(7 / (2**31 - 1) if scale else 7))


@pytest.mark.parametrize("fill", [0.5, -3, 300])
def test_a_float_border_around_what_was_uint8(fill: float) -> None:
    image = np.full((2, 2, 1), 9, np.uint8)
    chain = [T.Layout("HWC"), T.ToDtype(np.float32)]
    made = one(image, [*chain, T.RandomCrop(4, padding=1, fill=fill)])
    assert (made[0] == fill).all()
    assert (made[1:3, 1:3] == 9).all()


def test_a_mirrored_border() -> None:
    """A flip puts the border in front of column 0, not the end of the row before."""
    image = np.arange(1, 33, dtype=np.uint8).reshape(4, 8, 1)
    chain = [T.Layout("HWC"), T.RandomCrop((4, 12), padding=(2, 0), fill=99)]
    chain += [T.RandomHorizontalFlip(1.0), T.ToDtype(np.float32)]
    made = one(image, chain)[..., 0]
    np.testing.assert_array_equal(made[:, 2:10], image[:, ::-1, 0])
    assert (made[:, [0, 1, 10, 11]] == 99).all()
