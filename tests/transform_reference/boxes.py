"""The boxes of RandomResizedCrop and RandomErasing: area and ratio first."""

from __future__ import annotations

import math
from typing import Any

from transform_reference.words import Draw, below

Range = tuple[float, float]


def _between(ends: Range, u: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * u


def _sides(
    shape: tuple[int, ...], scale: Range, ratio: Range, u: list[float]
) -> tuple[int, int]:
    """The longer side first where the ratio is above 1."""
    area = shape[0] * shape[1] * _between(scale, u[0])
    stretch = math.exp(_between((math.log(ratio[0]), math.log(ratio[1])), u[1]))
    return round(math.sqrt(area * stretch)), round(math.sqrt(area / stretch))


def resized_crop_box(
    draw: Draw, shape: tuple[int, ...], *, scale: Range, ratio: Range
) -> dict[str, int]:
    """A box in ten attempts, or the largest one in the middle that has a good ratio."""
    height, width = shape[:2]
    for attempt in range(10):
        words = draw.words(attempt)
        w, h = _sides(shape, scale, ratio, draw.uniforms(attempt))
        if 0 < w <= width and 0 < h <= height:
            top = draw.place(words[2], height - h + 1)
            left = draw.place(words[3], width - w + 1)
            return {"top": top, "left": left, "height": h, "width": w}
    return middle_box(height, width, ratio)


def middle_box(height: int, width: int, ratio: Range) -> dict[str, int]:
    """Return the box that is used when no attempt fits."""
    h, w = height, width
    if width / height < min(ratio):
        h = round(width / min(ratio))
    elif width / height > max(ratio):
        w = round(height * max(ratio))
    top, left = (height - h) // 2, (width - w) // 2
    return {"top": top, "left": left, "height": h, "width": w}


def erased_box(
    draw: Draw, shape: tuple[int, ...], *, p: float, scale: Range, ratio: Range
) -> tuple[int, int, int, int] | None:
    """(top, left, height, width), or None: not erased, or no attempt fits."""
    height, width = shape[:2]
    if draw.uniforms(0)[0] >= p:
        return None
    for block in range(1, 11):
        words = draw.words(block)
        # The ratio is of height to width here; that of the crop is the other way.
        h, w = _sides(shape, scale, ratio, draw.uniforms(block))
        if 0 < h < height and 0 < w < width:
            top, left = below(words[2], height - h + 1), below(words[3], width - w + 1)
            return top, left, h, w
    return None


def padding_for_crop(
    shape: tuple[int, ...], size: tuple[int, int], given: Any, *, if_needed: bool
) -> tuple[int, int, int, int]:
    """left, top, right, bottom. What is missing is added on *both* sides."""
    left, top, right, bottom = given
    lacks = [
        max(0, want - have) if if_needed else 0
        for want, have in zip(
            size, (shape[0] + top + bottom, shape[1] + left + right), strict=True
        )
    ]
    return left + lacks[1], top + lacks[0], right + lacks[1], bottom + lacks[0]
