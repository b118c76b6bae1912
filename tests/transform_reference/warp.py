"""Rotation and affine maps: each pixel is fetched from where it was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from transform_reference.dtypes import rounded

Matrix = tuple[float, float, float, float, float, float]


def inverse_matrix(
    *,
    angle: float,
    translate: Sequence[float] = (0, 0),
    scale: float = 1.0,
    shear: Sequence[float] = (0, 0),
    about: Sequence[float] = (0, 0),
) -> Matrix:
    """The way back: rotation by `angle` degrees, clockwise on the screen.

    `about` is the fixed point, (x, y) from the middle of the image. The forward map is
    to `about`, shear x, shear y, scale, rotation, back from `about`, translation.
    """
    turn, shear_x, shear_y = (math.radians(a) for a in (angle, *shear))
    forward = scale * _rotation(turn) @ _sheared(0, shear_y) @ _sheared(shear_x, 0)
    back = np.linalg.inv(forward)
    center = np.asarray(about, float)
    shift = center - back @ (center + np.asarray(translate, float))
    return (*back[0], shift[0], *back[1], shift[1])


def _rotation(turn: float) -> np.ndarray:
    cos, sin = math.cos(turn), math.sin(turn)
    return np.array([[cos, -sin], [sin, cos]])


def _sheared(x: float, y: float) -> np.ndarray:
    return np.array([[1, -math.tan(x)], [-math.tan(y), 1]])


def sources(shape: tuple[int, ...], matrix: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """(x, y) in the image for every pixel of the result, in pixels from the corner."""
    height, width = shape[:2]
    middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
    x = np.arange(width)[None, :] - middle_x
    y = np.arange(height)[:, None] - middle_y
    a, b, c, d, e, f = matrix
    return a * x + b * y + c + middle_x, d * x + e * y + f + middle_y


def near_tie(
    shape: tuple[int, ...], matrix: Matrix, margin: float = 1e-3
) -> np.ndarray:
    """Pixels whose nearest source is decided by the last bits, which may differ."""
    gaps = [np.abs(at - np.floor(at) - 0.5) for at in sources(shape, matrix)]
    return np.minimum(*gaps) < margin


def warp(
    image: np.ndarray, matrix: Matrix, *, interpolation: str = "nearest", fill: Any = 0
) -> np.ndarray:
    """The image seen through the matrix; what comes from outside is `fill`."""
    x, y = sources(image.shape, matrix)
    return fetched(image, x, y, interpolation=interpolation, fill=fill)


def fetched(
    image: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    *,
    interpolation: str = "nearest",
    fill: Any = 0,
) -> np.ndarray:
    """The pixels at (x, y), counted from the centre of the first; `fill` outside."""
    fill = np.broadcast_to(np.asarray(fill, float), image.shape[2])
    values = image.astype(np.float64)
    if interpolation == "nearest":
        picked, weight = _tap(values, np.rint(x), np.rint(y))
        return rounded(np.where(weight, picked, fill), image.dtype)
    total, inside = np.zeros(image.shape), np.zeros((*image.shape[:2], 1))
    for right in (0, 1):
        for below in (0, 1):
            at_x, at_y = np.floor(x) + right, np.floor(y) + below
            share = ((1 - np.abs(x - at_x)) * (1 - np.abs(y - at_y)))[..., None]
            picked, weight = _tap(values, at_x, at_y)
            total += share * picked
            inside += share * weight
    # Not total + (1 - inside) * fill: torchvision fades a faded border once more.
    return rounded(inside * (total - fill) + fill, image.dtype)


def _tap(
    values: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The values at whole places, 0 outside; and whether they are inside."""
    height, width = values.shape[:2]
    inside = ((x >= 0) & (x < width) & (y >= 0) & (y < height))[..., None]
    rows = np.clip(y, 0, height - 1).astype(int)
    columns = np.clip(x, 0, width - 1).astype(int)
    return np.where(inside, values[rows, columns], 0), inside


def about_middle(shape: tuple[int, ...], center: Any) -> Sequence[float]:
    """A centre (x, y) in pixels from the corner, as seen from the middle."""
    if center is None:
        return 0, 0
    return center[0] - shape[1] * 0.5, center[1] - shape[0] * 0.5


def rotation_matrix(
    shape: tuple[int, ...], *, angle: float, center: Any = None
) -> Matrix:
    """Counter-clockwise, against the direction of an affine map."""
    return inverse_matrix(angle=-angle, about=about_middle(shape, center))


def rotate(
    image: np.ndarray, *, angle: float, center: Any = None, **options: Any
) -> np.ndarray:
    """Turned counter-clockwise; quarter turns that fit are exact."""
    quarters, rest = divmod(angle % 360, 90)
    square = image.shape[0] == image.shape[1]
    if center is None and rest == 0 and (square or quarters % 2 == 0):
        return np.rot90(image, int(quarters)).copy()
    matrix = rotation_matrix(image.shape, angle=angle, center=center)
    return warp(image, matrix, **options)


def affine_matrix(shape: tuple[int, ...], *, center: Any = None, **what: Any) -> Matrix:
    """Of an angle, translation, scale and shear about a centre in pixels."""
    return inverse_matrix(about=about_middle(shape, center), **what)


def affine(
    image: np.ndarray, *, interpolation: str = "nearest", fill: Any = 0, **what: Any
) -> np.ndarray:
    """Sheared, scaled, turned clockwise and moved."""
    matrix = affine_matrix(image.shape, **what)
    return warp(image, matrix, interpolation=interpolation, fill=fill)
