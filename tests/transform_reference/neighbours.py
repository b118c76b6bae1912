"""Gaussian blur and sharpness: sums over the pixels around each."""

from __future__ import annotations

from typing import Any

import numpy as np

from transform_reference.crops import both, pad
from transform_reference.dtypes import cast, f32, rounded
from transform_reference.words import Draw, below

Shape = tuple[int, ...]
Drawn = dict[str, Any]


def gaussian_blur_parameters(
    draw: Draw, shape: Shape, *, kernel_size: Any, sigma: Any = (0.1, 2.0)
) -> Drawn:
    """One standard deviation for both axes."""
    low, high = (sigma, sigma) if np.isscalar(sigma) else (sigma[0], sigma[-1])
    u = draw.uniforms(0)[0]
    return {"kernel_size": both(kernel_size), "sigma": low + (high - low) * u}


def gaussian(size: int, sigma: float) -> np.ndarray:
    """[size]: weights that add up to one."""
    at = np.arange(size) - size // 2
    weights = np.exp(-0.5 * (at / sigma) ** 2)
    return weights / weights.sum()


def gaussian_blur(
    image: np.ndarray, *, kernel_size: tuple[int, int], sigma: float
) -> np.ndarray:
    """`kernel_size` is of columns and of rows; past the edges lies the mirror image."""
    columns, rows = kernel_size
    padded = pad(
        image.astype(np.float64),
        padding=[columns // 2, rows // 2],
        padding_mode="reflect",
    )
    height, width, _ = image.shape
    total = np.zeros(image.shape)
    for i, down in enumerate(gaussian(rows, sigma)):
        for j, across in enumerate(gaussian(columns, sigma)):
            total += down * across * padded[i : i + height, j : j + width]
    return rounded(total, image.dtype)


def sharpness_parameters(draw: Draw, shape: Shape, *, factor: float) -> Drawn:
    """Nothing random about it."""
    return {"factor": factor}


def random_sharpness_parameters(
    draw: Draw, shape: Shape, *, sharpness_factor: float, p: float = 0.5
) -> Drawn:
    return {"factor": sharpness_factor if draw.uniforms(0)[0] < p else None}


def graded_sharpness_parameters(
    draw: Draw, shape: Shape, *, levels: Any, signed: bool = True
) -> Drawn:
    """Word 1 chooses the level, word 2 its sign."""
    level = float(levels[below(draw.words(0)[1], len(levels))])
    negative = signed and not draw.uniforms(0)[2] < 0.5
    return {"factor": 1.0 - level if negative else 1.0 + level}


def sharpness(image: np.ndarray, *, factor: float | None) -> np.ndarray:
    """Pixels at the edge stay; None leaves all. uint8 is fused, as in torch."""
    height, width, _ = image.shape
    if factor is None or height < 3 or width < 3:
        return image.copy()
    whole = image.dtype == np.uint8
    values = image.astype(np.float64)
    total = 4 * values[1:-1, 1:-1]
    for i in range(3):
        for j in range(3):
            total = total + values[i : i + height - 2, j : j + width - 2]
    mean = np.rint(total / 13) if whole else total / 13
    middle = values[1:-1, 1:-1]
    share = float(f32(1.0 - factor))
    made = values.copy()
    made[1:-1, 1:-1] = middle + (mean - middle) * share
    if whole:
        return cast(np.clip(made.astype(f32), 0, 255), image.dtype)
    return rounded(np.clip(made, 0, 1), image.dtype)
