"""Values and the dtypes that they are kept in."""

from __future__ import annotations

from typing import Any

import numpy as np

f32 = np.float32


def name_of(dtype: Any) -> str:
    """Its name: "bfloat16" stands for itself, for NumPy has no such dtype."""
    return dtype if dtype == "bfloat16" else np.dtype(dtype).name


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 to the nearest bfloat16, ties to even; still held as float32."""
    bits = np.asarray(values, f32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    out = rounded.astype(np.uint32).view(f32)
    return np.where(np.isnan(values), f32(np.nan), out)


def cast(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Values within range to a dtype: integers toward zero, floats to the nearest.

    A half goes through float32, where the engine computes.
    """
    name = name_of(dtype)
    if name == "bfloat16":
        out = to_bfloat16(np.asarray(values, f32))
        return out if isinstance(dtype, str) else out.astype(dtype)
    if name == "uint8":
        # Out of range only by RandomErasing, which wraps as torch does.
        return (np.trunc(values).astype(np.int64) & 0xFF).astype(np.uint8)
    if name == "float16":
        return np.asarray(values, f32).astype(np.float16)
    return np.asarray(values).astype(dtype)


def rounded(values: np.ndarray, dtype: Any) -> np.ndarray:
    """To a dtype: integers to the nearest, half to even, and held in range."""
    if name_of(dtype) == "uint8":
        return np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return cast(values, dtype)


def to_dtype(image: np.ndarray, *, dtype: Any, scale: bool = False) -> np.ndarray:
    """uint8 or float to a float dtype; `scale` takes 0 ... 255 to 0 ... 1.

    The scale is a product with 1/255 in float32, not a division.
    """
    if name_of(dtype) == image.dtype.name:
        return image.copy()
    if image.dtype != np.uint8 or not scale:
        return cast(image.astype(f32), dtype)
    return cast(image.astype(f32) * f32(1 / 255), dtype)


def normalize(image: np.ndarray, *, mean: Any, std: Any) -> np.ndarray:
    """(image - mean) / std in float32, rounded to the dtype once."""
    mean, std = np.asarray(mean, f32), np.asarray(std, f32)
    return cast((image.astype(f32) - mean) / std, image.dtype)
