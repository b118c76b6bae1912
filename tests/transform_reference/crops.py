"""Crops, padding, flips, erasing and windows: values move, none is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from transform_reference.dtypes import cast

Pair = tuple[int, int]
Sides = tuple[int, int, int, int]
"""left, top, right, bottom"""


def both(size: Any) -> Pair:
    """(height, width) of an int, a sequence of one, or a pair."""
    if isinstance(size, int):
        return size, size
    return (size[0], size[0]) if len(size) == 1 else (size[0], size[1])


def sides(padding: Any) -> Sides:
    """left, top, right, bottom of None, an int, or one, two or four of them."""
    if padding is None:
        return 0, 0, 0, 0
    if isinstance(padding, int):
        return (padding,) * 4
    if len(padding) == 1:
        return (padding[0],) * 4
    return tuple(padding) if len(padding) == 4 else tuple(padding) * 2


def source(at: int, size: int, mode: str) -> int | None:
    """Return the index that the value at `at` is read from; None for the fill."""
    if 0 <= at < size:
        return at
    if mode == "constant":
        return None
    if mode == "edge":
        return min(max(at, 0), size - 1)
    # Of both mirrors one lies on the first or last value, the other beside it.
    beside = 0 if mode == "reflect" else 1
    return -at - beside if at < 0 else 2 * (size - 1) - at + beside


def pad(
    image: np.ndarray, *, padding: Any, fill: Any = 0, padding_mode: str = "constant"
) -> np.ndarray:
    """An image with a border on each side."""
    left, top, right, bottom = sides(padding)
    height, width, channels = image.shape
    out = np.empty((top + height + bottom, left + width + right, channels), image.dtype)
    out[:] = cast(np.broadcast_to(np.asarray(fill, float), channels), image.dtype)
    for i in range(out.shape[0]):
        y = source(i - top, height, padding_mode)
        for j in range(out.shape[1]):
            x = source(j - left, width, padding_mode)
            if y is not None and x is not None:
                out[i, j] = image[y, x]
    return out


def crop(
    image: np.ndarray, *, top: int, left: int, height: int, width: int
) -> np.ndarray:
    """A part of an image, wholly inside of it."""
    assert 0 <= top <= image.shape[0] - height
    assert 0 <= left <= image.shape[1] - width
    return image[top : top + height, left : left + width].copy()


def pad_and_crop(
    image: np.ndarray,
    *,
    padding: Any = None,
    fill: Any = 0,
    padding_mode: str = "constant",
    **box: int,
) -> np.ndarray:
    """RandomCrop: a part of the padded image."""
    padded = pad(image, padding=padding, fill=fill, padding_mode=padding_mode)
    return crop(padded, **box)


def center_crop(image: np.ndarray, *, size: Any) -> np.ndarray:
    """The middle; where that lies between two places, at the even one."""
    height, width = both(size)
    top, left = (
        (a - b) / 2 for a, b in zip(image.shape, (height, width), strict=False)
    )
    return crop(image, top=round(top), left=round(left), height=height, width=width)


def horizontal_flip(image: np.ndarray, *, flip: bool = True) -> np.ndarray:
    """Left and right change places."""
    return image[:, ::-1].copy() if flip else image.copy()


def vertical_flip(image: np.ndarray, *, flip: bool = True) -> np.ndarray:
    """Top and bottom change places."""
    return image[::-1].copy() if flip else image.copy()


def erase(
    image: np.ndarray, *, box: tuple[int, int, int, int] | None, value: Any = 0
) -> np.ndarray:
    """A value over the box (top, left, height, width): one, per channel, or an image.

    An image has the size of the whole; what lies in the box is taken from it.
    """
    out = image.copy()
    if box is not None:
        top, left, height, width = box
        inside = np.s_[top : top + height, left : left + width]
        values = np.broadcast_to(np.asarray(value, float), image.shape)
        out[inside] = cast(values[inside], image.dtype)
    return out


def window(array: np.ndarray, *, start: int, length: int, axis: int = 0) -> np.ndarray:
    """`length` neighbours along an axis."""
    assert 0 <= start <= array.shape[axis] - length
    return np.take(array, range(start, start + length), axis)
