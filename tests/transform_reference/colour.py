"""ColorJitter: brightness, contrast, saturation and hue, in float32.

Each step on uint8 ends with a cut toward zero, so a last bit may be one level. `fused`
contracts a product and a sum into one rounding, as torch's vector code does: then uint8
is torchvision's bit by bit. The engine does not contract.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from transform_reference.dtypes import cast, f32, to_dtype

STEPS = ("brightness", "contrast", "saturation", "hue")


def _add_product(a: np.ndarray, b: float, c: np.ndarray, fused: bool) -> np.ndarray:
    """c + a * b"""
    if fused:
        return (a.astype(np.float64) * float(f32(b)) + c).astype(f32)
    return a * f32(b) + c


def _bounded(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    top = 255 if like.dtype == np.uint8 else 1
    return cast(np.clip(values, 0, top), like.dtype)


def _gray(image: np.ndarray, fused: bool) -> np.ndarray:
    red, green, blue = np.moveaxis(image.astype(f32), 2, 0)
    gray = _add_product(green, 0.587, red * f32(0.2989), fused)
    gray = _add_product(blue, 0.114, gray, fused)[..., None]
    return np.floor(gray) if image.dtype == np.uint8 else gray


def _blend(
    image: np.ndarray, other: np.ndarray, factor: float, fused: bool
) -> np.ndarray:
    scaled = image.astype(f32) * f32(factor)
    return _bounded(_add_product(other, 1 - factor, scaled, fused), image)


def brightness(image: np.ndarray, factor: float, *, fused: bool = False) -> np.ndarray:
    """Times a factor."""
    return _bounded(image.astype(f32) * f32(factor), image)


def contrast(image: np.ndarray, factor: float, *, fused: bool = False) -> np.ndarray:
    """Away from, or to, the mean gray of the whole image."""
    gray = image.astype(f32) if image.shape[2] == 1 else _gray(image, fused)
    mean = gray.astype(np.float64).mean(keepdims=True).astype(f32)
    return _blend(image, mean, factor, fused)


def saturation(image: np.ndarray, factor: float, *, fused: bool = False) -> np.ndarray:
    """Away from, or to, each pixel's gray."""
    if image.shape[2] == 1:
        return image.copy()
    return _blend(image, _gray(image, fused), factor, fused)


def to_hsv(image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hue as a share of the circle, saturation, value."""
    red, green, _ = np.moveaxis(image, 2, 0)
    high, low = image.max(axis=2), image.min(axis=2)
    gray = high == low
    spread = high - low
    share = spread / np.where(gray, f32(1), high)
    from_high = (high[..., None] - image) / np.where(gray, f32(1), spread)[..., None]
    r, g, b = np.moveaxis(from_high, 2, 0)
    sixths = np.where(
        high == red, b - g, np.where(high == green, r + f32(2) - b, g + f32(4) - r)
    )
    return np.fmod(sixths * f32(1 / 6) + f32(1), f32(1)), share, high


def from_hsv(h: np.ndarray, s: np.ndarray, v: np.ndarray) -> np.ndarray:
    """[height, width, 3]"""
    sixths = h * f32(6)
    sector = np.floor(sixths)
    part = sixths - sector
    one = f32(1)
    q = np.clip((one - s * part) * v, 0, 1)
    t = np.clip((s * part + (one - s)) * v, 0, 1)
    p = np.clip((one - s) * v, 0, 1)
    table = ((v, t, p), (q, v, p), (p, v, t), (p, q, v), (t, p, v), (v, p, q))
    sector = sector.astype(int) % 6
    channels = [np.choose(sector, [row[c] for row in table]) for c in range(3)]
    return np.stack(channels, axis=2)


def hue(image: np.ndarray, factor: float, *, fused: bool = False) -> np.ndarray:
    """Turned by a share of the circle of colours."""
    if image.shape[2] == 1:
        return image.copy()
    values = to_dtype(image, dtype=f32, scale=True)
    h, s, v = to_hsv(values)
    turned = from_hsv(np.remainder(h + f32(factor), f32(1)), s, v)
    if image.dtype != np.uint8:
        return cast(turned, image.dtype)
    # Nearly 256, so that the whole of 255/255 is 255 again.
    return cast(turned * f32(255.999), np.uint8)


def color_jitter(
    image: np.ndarray,
    *,
    order: Sequence[int] = (0, 1, 2, 3),
    fused: bool = False,
    **factors: float | None,
) -> np.ndarray:
    """The four steps in an order; a factor of None leaves its step out."""
    step = {
        "brightness": brightness,
        "contrast": contrast,
        "saturation": saturation,
        "hue": hue,
    }
    for number in order:
        factor = factors.get(STEPS[number])
        if factor is not None:
            image = step[STEPS[number]](image, factor, fused=fused)
    return image
