"""Warps whose strength is one of some levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from transform_reference import tones, warp
from transform_reference.words import Draw


def matrix_of(shape: tuple[int, ...], kind: str, level: float) -> warp.Matrix:
    """The way back. Shears are about the corner, rotations about the middle."""
    about = (-shape[1] / 2, -shape[0] / 2)
    degrees = math.degrees(math.atan(level))
    if kind == "shear_x":
        return warp.inverse_matrix(angle=0, shear=(degrees, 0), about=about)
    if kind == "shear_y":
        return warp.inverse_matrix(angle=0, shear=(0, degrees), about=about)
    if kind == "rotate":
        return warp.inverse_matrix(angle=-level)
    moved = (int(level), 0) if kind == "translate_x" else (0, int(level))
    return warp.inverse_matrix(angle=0, translate=moved)


def graded_warp_parameters(
    draw: Draw,
    shape: tuple[int, ...],
    *,
    levels: Sequence[float],
    kind: str,
    either_sign: bool = True,
    **same: Any,
) -> dict[str, Any]:
    """The matrix of the way back."""
    level = tones.level(list(draw.words(0)), levels, either_sign=either_sign)
    return {**same, "matrix": matrix_of(shape, kind, level)}
