"""Operations whose strength is one of some levels, for automatic augmentations.

Each level is drawn alike, and with either sign where that is asked for. One level is
fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.transforms import arguments, dtypes
from echobuf.transforms.chain import Chain
from echobuf.transforms.crops import filling
from echobuf.transforms.filters import add_sharpen
from echobuf.transforms.operation import OnImages, Operation
from echobuf.transforms.pixels import check_contrast
from echobuf.transforms.resampling import warp_mode
from echobuf.transforms.tones import add_posterize, add_solarize

Levels = tuple[float, ...]

COLORS = ("brightness", "contrast", "color")
WARPS = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
_MOST = 1e6


def evenly(first: float, last: float, count: int) -> Levels:
    """Return `count` levels as `torch.linspace` has them, to the bit of a float32."""
    if count == 1:
        return (float(np.float32(first)),)
    low, high = np.float32(first), np.float32(last)
    step = float((high - low) / np.float32(count - 1))
    # Each half from its end. Product and sum are rounded once, as torch fuses them.
    return tuple(
        float(
            np.float32(float(low) + step * i)
            if i < count // 2
            else np.float32(float(high) - step * (count - 1 - i))
        )
        for i in range(count)
    )


@dataclass(frozen=True, eq=False)
class _Graded(Operation):
    """The base of operations with levels.

    Args:
        levels: 1 to 31 numbers, or a function of height and width that returns them.
    """

    levels: Levels | Callable[[int, int], Levels]

    def _levels(
        self, chain: Chain, least: float = -_MOST, most: float = _MOST
    ) -> Levels:
        height, width, _ = chain.extent
        found = self.levels(height, width) if callable(self.levels) else self.levels
        if not 0 < len(found) <= _core.MOST_LEVELS:
            raise self.refusal("levels", found, f"1 to {_core.MOST_LEVELS} numbers")
        return tuple(
            arguments.number(self, "levels", level, least, most) for level in found
        )


@dataclass(frozen=True, eq=False)
class GradedColor(_Graded, OnImages):
    """A change of brightness, contrast or saturation by the factor 1 + level.

    Args:
        levels: of at least -1.
        kind: "brightness", "contrast" or "color", which is the saturation.
        either_sign: take the level or its negative, with one half each.

    As `ColorJitter` with that factor, for 1 or 3 channels. Masks stay as they are.
    """

    kind: str
    either_sign: bool = True
    _of_colours = True
    _arguments = arguments.checks(kind=arguments.one_of(*COLORS))

    def _add(self, chain: Chain) -> None:
        kind = self._value("kind")
        if kind == "contrast":
            check_contrast(chain)
        settings = {
            "in": chain.extent,
            "kind": COLORS.index(kind),
            "integer": int(dtypes.is_integer(chain.dtype)),
            "bound": dtypes.largest(chain.dtype),
            "levels": (self._levels(chain, -1.0), self.either_sign),
        }
        chain.change("graded_color", settings, statistic=kind == "contrast")


@dataclass(frozen=True, eq=False)
class GradedWarp(_Graded):
    """A shear, a translation or a rotation by a level.

    Args:
        levels: of "shear_x" and "shear_y" columns a row and rows a column; of
            "translate_x" and "translate_y" pixels to the right and down, cut to whole
            ones; of "rotate" degrees counter-clockwise.
        kind: one of these.
        either_sign: take the level or its negative, with one half each.
        interpolation: "nearest" or "bilinear"; of masks nearest.
        fill: the value outside the image, as of `RandomAffine`. None is 0, which then
            darkens the bilinear pixels on the edge once; a fill of 0 does it twice, as
            in torchvision.

    As torchvision's RandAugment does them: shears about the top left corner, rotations
    about the middle.
    """

    kind: str
    either_sign: bool = True
    interpolation: Any = "nearest"
    fill: Any = None
    _arguments = arguments.checks(
        kind=arguments.one_of(*WARPS), interpolation=warp_mode
    )

    def add_to(self, chain: Chain) -> None:
        chain.image()
        chain.computes()
        kind, how = self._value("kind"), self._value("interpolation")
        bilinear = 0
        if how == "bilinear" and not chain.is_mask:
            bilinear = 2 if self.fill is None else 1
        fill = 0 if self.fill is None else self.fill
        settings = {
            "in": chain.extent,
            "bilinear": bilinear,
            "kind": WARPS.index(kind),
            "fill": filling(self, chain, fill, rounds=True),
            "levels": (self._levels(chain), self.either_sign),
        }
        chain.resample("graded_warp", settings, chain.extent, "half even")


@dataclass(frozen=True, eq=False)
class GradedSharpness(_Graded, OnImages):
    """Sharpness of the factor 1 + level; with `either_sign`, or 1 - level."""

    either_sign: bool = True
    _of_colours = True

    def _add(self, chain: Chain) -> None:
        levels = self._levels(chain, -1.0, 1.0 if self.either_sign else _MOST)
        add_sharpen(chain, [-level for level in levels], either=self.either_sign)


@dataclass(frozen=True, eq=False)
class GradedPosterize(_Graded, OnImages):
    """`Posterize` to as many bits as a level says, 0 to 8, cut to whole numbers."""

    def _add(self, chain: Chain) -> None:
        bits = [int(level) for level in self._levels(chain, 0.0, 8.0)]
        add_posterize(chain, 1.0, bits)


@dataclass(frozen=True, eq=False)
class GradedSolarize(_Graded, OnImages):
    """`Solarize` from a share of white on, which a level says: 0 to 1."""

    def _add(self, chain: Chain) -> None:
        white = dtypes.largest(chain.dtype)
        thresholds = [white * level for level in self._levels(chain, 0.0, 1.0)]
        add_solarize(chain, 1.0, thresholds)
