"""Tones: each number of a channel replaced, equal ones alike. And levels of strength.

Each operation takes its first word for its probability, of which `on` is the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from transform_reference.dtypes import cast, f32
from transform_reference.words import Draw, below

Shape = tuple[int, ...]


def drawn(draw: Draw, shape: Shape, *, p: float = 1.0, **same: Any) -> dict[str, Any]:
    """Whether it is done."""
    return {**same, "on": draw.words(0)[0] * 2.0**-32 < p}


def randomly(
    draw: Draw, shape: Shape, *, p: float = 0.5, **same: Any
) -> dict[str, Any]:
    """The same, half of the time."""
    return drawn(draw, shape, p=p, **same)


def rarely(draw: Draw, shape: Shape, *, p: float = 0.1, **same: Any) -> dict[str, Any]:
    """The same, a tenth of the time, in as many channels."""
    return drawn(draw, shape, p=p, num_output_channels=shape[2], **same)


def level(
    words: Sequence[int], levels: Sequence[float], *, either_sign: bool = False
) -> float:
    """One of some levels by the first word; by the second its negative."""
    found = float(f32(levels[below(words[0], len(levels))]))
    return -found if either_sign and words[1] < 2**31 else found


def white(image: np.ndarray) -> Any:
    return f32(255 if image.dtype == np.uint8 else 1)


def invert(image: np.ndarray, *, on: bool = True) -> np.ndarray:
    """Light made dark, dark made light."""
    return cast(white(image) - image.astype(f32), image.dtype) if on else image.copy()


def solarize(image: np.ndarray, *, threshold: float, on: bool = True) -> np.ndarray:
    """Numbers from a threshold on inverted."""
    of = f32 if image.dtype == np.uint8 else image.dtype
    least = np.asarray(threshold).astype(of).astype(f32)
    light = image.astype(f32) >= least
    return np.where(light, invert(image), image) if on else image.copy()


def posterize(image: np.ndarray, *, bits: int, on: bool = True) -> np.ndarray:
    """The first bits kept."""
    if not on:
        return image.copy()
    if image.dtype == np.uint8:
        return image >> (8 - bits) << (8 - bits) if bits else np.zeros_like(image)
    steps = f32(2**bits)
    whole = np.clip(np.floor(image.astype(f32) * steps), 0, steps - 1)
    return cast(whole / steps, image.dtype)


def autocontrast(image: np.ndarray, *, on: bool = True) -> np.ndarray:
    """Each channel from black to white."""
    if not on:
        return image.copy()
    out = np.empty(image.shape, f32)
    for c in range(image.shape[2]):
        channel = image[..., c].astype(f32)
        low, high = channel.min(), channel.max()
        spread = (high - low) * (f32(1) / white(image))
        if low == high:
            low, spread = f32(0), f32(1)
        out[..., c] = np.clip((channel - low) / spread, 0, white(image))
    return cast(out, image.dtype)


def equalize(image: np.ndarray, *, on: bool = True) -> np.ndarray:
    """By the order of 256 levels, as Pillow does it."""
    if not on:
        return image.copy()
    whole = image
    if image.dtype != np.uint8:
        whole = np.clip(np.trunc(image.astype(f32) * f32(255.999)), 0, 255)
        whole = whole.astype(np.uint8)
    out = np.empty_like(whole)
    for c in range(image.shape[2]):
        counts = [int((whole[..., c] == level).sum()) for level in range(256)]
        last = next(count for count in reversed(counts) if count)
        step = (sum(counts) - last) // 255
        table = list(range(256))
        if step:
            table = [
                min(255, (sum(counts[:level]) + step // 2) // step)
                for level in range(256)
            ]
        out[..., c] = np.asarray(table, np.uint8)[whole[..., c]]
    if image.dtype == np.uint8:
        return out
    return cast(out.astype(f32) * f32(1 / 255), image.dtype)


def grayscale(
    image: np.ndarray, *, num_output_channels: int = 1, on: bool = True
) -> np.ndarray:
    """Each sum rounded once, as torch's fused additions are."""
    if not on:
        return image.copy()
    gray = image.astype(f32)
    if image.shape[2] == 3:
        red, green, blue = np.moveaxis(gray.astype(np.float64), 2, 0)
        total = (red.astype(f32) * f32(0.2989)).astype(np.float64)
        total = (total + green * float(f32(0.587))).astype(f32).astype(np.float64)
        gray = (total + blue * float(f32(0.114))).astype(f32)[..., None]
    return np.repeat(cast(gray, image.dtype), num_output_channels, axis=2)
