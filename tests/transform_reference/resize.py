"""Resizing: separable weights, the horizontal pass first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from transform_reference.crops import both, crop
from transform_reference.dtypes import f32, rounded


def resized_shape(
    shape: tuple[int, ...], size: Any, max_size: int | None = None
) -> tuple[int, int]:
    """(height, width) after it: a single number is the shorter side."""
    height, width = shape[:2]
    if not isinstance(size, int) and len(size) == 2:
        return tuple(size)
    short = size if isinstance(size, int) else size[0]
    long = int(short * max(height, width) / min(height, width))
    if max_size is not None and long > max_size:
        short, long = int(max_size * short / long), max_size
    return (long, short) if width <= height else (short, long)


def nearest_indices(size: int, new: int, *, exact: bool) -> np.ndarray:
    """Return the source of each output; float32 decides between two at times."""
    at = np.arange(new).astype(f32) + f32(0.5 if exact else 0)
    return np.minimum(np.floor(at * (f32(size) / f32(new))), size - 1).astype(int)


def weights(
    size: int, new: int, *, antialias: bool, interpolation: str = "bilinear"
) -> np.ndarray:
    """[new, size]: triangles, widened where it shrinks and `antialias` is set."""
    if interpolation == "bicubic":
        return cubic_weights(size, new, antialias=antialias)
    scale = size / new
    reach = max(scale, 1.0) if antialias else 1.0
    out = np.zeros((new, size))
    for i in range(new):
        center = scale * (i + 0.5)
        first = max(int(center - reach + 0.5), 0)
        last = min(int(center + reach + 0.5), size)
        taps = np.arange(first, last)
        triangle = np.maximum(0, 1 - np.abs((taps - center + 0.5) / reach))
        out[i, first:last] = triangle / triangle.sum()
    return out


def cubic(x: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic of slope `a` at distance 1."""
    x = np.abs(x)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def cubic_weights(size: int, new: int, *, antialias: bool) -> np.ndarray:
    """[new, size]: without `antialias` pixels past the edge are those at the edge."""
    scale = size / new
    unit = max(scale, 1.0) if antialias else 1.0
    out = np.zeros((new, size))
    for i in range(new):
        center = scale * (i + 0.5) - 0.5
        if antialias:
            out[i] = cubic((np.arange(size) - center) / unit, -0.5)
        else:
            taps = math.floor(center) + np.arange(-1, 3)
            np.add.at(out[i], np.clip(taps, 0, size - 1), cubic(taps - center, -0.75))
    return out / out.sum(1, keepdims=True)


def fixed_point(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """The weights as 16-bit integers, and how many bits are behind the point."""
    top = matrix.max()
    bits = next(
        b for b in range(22) if b == 21 or int(0.5 + top * 2 ** (b + 1)) >= 2**15
    )
    return np.floor(matrix * 2**bits + 0.5).astype(np.int64), bits


def integer_pass(image: np.ndarray, new: int, axis: int, antialias: bool) -> np.ndarray:
    """One axis of a uint8 image, to uint8, as torch does it on a CPU with AVX2."""
    if image.shape[axis] == new:
        return image
    matrix, bits = fixed_point(weights(image.shape[axis], new, antialias=antialias))
    total = np.moveaxis(
        np.tensordot(matrix, image.astype(np.int64), (1, axis)), 0, axis
    )
    return np.clip((total + (1 << (bits - 1))) >> bits, 0, 255).astype(np.uint8)


def smooth(
    image: np.ndarray,
    size: tuple[int, int],
    *,
    antialias: bool,
    passes: bool,
    interpolation: str = "bilinear",
) -> np.ndarray:
    """`passes`: uint8 is rounded after each axis, else once, as where it is float."""
    height, width = size
    if image.dtype == np.uint8 and passes and interpolation == "bilinear":
        across = integer_pass(image, width, 1, antialias)
        return integer_pass(across, height, 0, antialias)
    values = image.astype(np.float64)
    how = {"antialias": antialias, "interpolation": interpolation}
    across = weights(image.shape[1], width, **how)
    down = weights(image.shape[0], height, **how)
    total = np.einsum("ij,jkc,lk->ilc", down, values, across)
    return rounded(total, image.dtype)


def resize(
    image: np.ndarray,
    *,
    size: Any,
    interpolation: str = "bilinear",
    max_size: int | None = None,
    antialias: bool = True,
    passes: bool = True,
) -> np.ndarray:
    """An image of another size; of its own size it is untouched."""
    new = resized_shape(image.shape, size, max_size)
    if new == image.shape[:2]:
        return image.copy()
    if interpolation in ("bilinear", "bicubic"):
        how = {"antialias": antialias, "interpolation": interpolation}
        return smooth(image, new, passes=passes, **how)
    exact = {"nearest": False, "nearest-exact": True}[interpolation]
    rows = nearest_indices(image.shape[0], new[0], exact=exact)
    columns = nearest_indices(image.shape[1], new[1], exact=exact)
    return image[rows[:, None], columns]


def resized_crop(
    image: np.ndarray,
    *,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    **options: Any,
) -> np.ndarray:
    """A part of an image at another size; nothing outside of the part is seen."""
    part = crop(image, top=top, left=left, height=height, width=width)
    return resize(part, size=both(size), **options)
