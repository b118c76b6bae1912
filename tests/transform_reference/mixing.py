"""Two examples into one, noise and gain."""

from __future__ import annotations

from typing import Any

import numpy as np

from transform_reference.dtypes import cast, f32


def mixup(x: np.ndarray, partner: np.ndarray, *, weight: float) -> np.ndarray:
    """x * weight + partner * (1 - weight), in float32."""
    mixed = partner.astype(f32) * f32(1 - weight) + x.astype(f32) * f32(weight)
    return cast(mixed, x.dtype)


def cutmix(
    x: np.ndarray, partner: np.ndarray, *, box: tuple[int, int, int, int]
) -> np.ndarray:
    """The partner inside the box (x1, y1, x2, y2), the example around it."""
    x1, y1, x2, y2 = box
    out = x.copy()
    out[y1:y2, x1:x2] = partner[y1:y2, x1:x2]
    return out


def cutmix_box(
    height: int, width: int, *, weight: float, at: tuple[int, int]
) -> tuple[tuple[int, int, int, int], float]:
    """The box (x1, y1, x2, y2) around `at` = (x, y), and the share outside of it."""
    half = 0.5 * np.sqrt(1 - weight)
    half_width, half_height = int(half * width), int(half * height)
    x1, x2 = max(at[0] - half_width, 0), min(at[0] + half_width, width)
    y1, y2 = max(at[1] - half_height, 0), min(at[1] + half_height, height)
    return (x1, y1, x2, y2), 1 - (x2 - x1) * (y2 - y1) / (width * height)


def soft_label(label: Any, num_classes: int | None) -> np.ndarray:
    """A class as float32[num_classes]; probabilities as they are."""
    if np.ndim(label) == 1:
        return np.asarray(label).astype(f32)
    return (np.arange(num_classes) == label).astype(f32)


def mix_labels(
    label: Any, partner: Any, *, weight: float, num_classes: int | None = None
) -> np.ndarray:
    """As much of each label as there is of each example."""
    return mixup(
        soft_label(label, num_classes), soft_label(partner, num_classes), weight=weight
    )


def noise(
    x: np.ndarray,
    *,
    normals: np.ndarray,
    mean: float = 0.0,
    sigma: float = 0.1,
    clip: Any = None,
) -> np.ndarray:
    """x + (mean + normals * sigma), in units of 255 on uint8.

    On uint8 the noise is cut toward zero before it is added, and the sum is held in
    range; a float is held in `clip` = (lowest, highest) where that is given.
    """
    if x.dtype == np.uint8:
        added = np.trunc(mean * 255 + normals * (sigma * 255))
        return np.clip(x + added, 0, 255).astype(np.uint8)
    values = x.astype(f32) + (mean + normals * sigma).astype(f32)
    if clip is not None:
        values = np.clip(values, f32(clip[0]), f32(clip[1]))
    return cast(values, x.dtype)


def gain(x: np.ndarray, *, gain: float) -> np.ndarray:
    """Times a gain."""
    return cast(x.astype(f32) * f32(gain), x.dtype)
