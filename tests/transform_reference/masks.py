"""Masks over tokens and spectrograms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def token_mask(
    tokens: np.ndarray, *, selected: np.ndarray, instead: np.ndarray
) -> np.ndarray:
    """Selected tokens become what is given instead of them."""
    return np.where(selected, instead, tokens).astype(tokens.dtype)


def token_labels(
    tokens: np.ndarray, *, selected: np.ndarray, ignore_index: int = -100
) -> np.ndarray:
    """Return the labels of a model: the selected tokens before they were masked."""
    return np.where(selected, tokens, ignore_index)


def spec_mask(
    values: np.ndarray,
    *,
    frequencies: Sequence[tuple[int, int]] = (),
    times: Sequence[tuple[int, int]] = (),
    value: float = 0.0,
) -> np.ndarray:
    """Bands (start, length) of [frequency, time] are a value."""
    out = values.copy()
    for start, length in frequencies:
        out[start : start + length] = value
    for start, length in times:
        out[:, start : start + length] = value
    return out
