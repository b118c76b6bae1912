"""Perspective: each pixel is fetched from where a projective map takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from transform_reference.warp import fetched
from transform_reference.words import Draw, below

Shape = tuple[int, ...]
Points = Sequence[tuple[int, int]]


def random_perspective_parameters(
    draw: Draw,
    shape: Shape,
    *,
    distortion_scale: float = 0.5,
    p: float = 0.5,
    **same: Any,
) -> dict[str, Any]:
    """x and y of each corner: top left, top right, bottom right, bottom left."""
    if draw.uniforms(0)[0] >= p:
        return {**same, "corners": None}
    height, width = shape[:2]
    down = int(distortion_scale * (height // 2)) + 1
    right = int(distortion_scale * (width // 2)) + 1
    words = [word for block in range(3) for word in draw.words(block)][1:]
    x = [below(word, right) for word in words[:8:2]]
    y = [below(word, down) for word in words[1:8:2]]
    left, low = width - right, height - down
    places = [
        (x[0], y[0]),
        (left + x[1], y[1]),
        (left + x[2], low + y[2]),
        (x[3], low + y[3]),
    ]
    return {**same, "corners": places}


def corners_of(shape: Shape) -> Points:
    """The centres of the outermost pixels, counted from 0."""
    right, low = shape[1] - 1, shape[0] - 1
    return [(0, 0), (right, 0), (right, low), (0, low)]


def coefficients(source: Points, target: Points) -> np.ndarray | None:
    """The eight of the map of four points to four; None if three lie on a line."""
    for i in range(4):
        (a, b), (c, d), (e, f) = (source[(i + k) % 4] for k in range(3))
        if (c - a) * (f - b) == (e - a) * (d - b):
            return None
    rows, wanted = [], []
    for (x, y), (u, v) in zip(source, target, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        wanted += [u, v]
    matrix = np.asarray(rows, float)
    if np.linalg.matrix_rank(matrix) < 8:
        return None
    return np.linalg.solve(matrix, np.asarray(wanted, float))


def sources(shape: Shape, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(x, y) in the image for every pixel of the result; of centres of pixels."""
    x = np.arange(shape[1])[None, :] + 0.5
    y = np.arange(shape[0])[:, None] + 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        over = m[6] * x + m[7] * y + 1
        return (
            (m[0] * x + m[1] * y + m[2]) / over - 0.5,
            (m[3] * x + m[4] * y + m[5]) / over - 0.5,
        )


def perspective(
    image: np.ndarray,
    *,
    corners: Points | None,
    interpolation: str = "bilinear",
    fill: Any = 0,
) -> np.ndarray:
    """The image with its corners elsewhere; None, or corners on a line, leave it."""
    m = None if corners is None else coefficients(corners, corners_of(image.shape))
    if m is None:
        return image.copy()
    x, y = sources(image.shape, m)
    return fetched(image, x, y, interpolation=interpolation, fill=fill)
