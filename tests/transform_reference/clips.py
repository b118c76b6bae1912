"""Operations on clips [frames, height, width, channels]: frame by frame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from transform_reference.operations import transform
from transform_reference.words import Draw


def transform_clip(
    name: str, options: dict[str, Any], draw: Draw, clip: np.ndarray
) -> np.ndarray:
    """Apply an operation to each frame with the same words.

    Only what is drawn for single elements differs: they are counted through the clip.
    """
    size = clip[0].size
    words = [replace(draw, first_element=t * size) for t in range(len(clip))]
    frames = zip(words, clip, strict=True)
    return np.stack([transform(name, options, own, frame) for own, frame in frames])
