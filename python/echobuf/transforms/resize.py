"""Operations that make images larger or smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from echobuf.transforms import arguments
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation

_HOW = ("bilinear", "nearest", "nearest-exact")


@dataclass(frozen=True, eq=False)
class Resize(Operation):
    """Makes images of another size.

    Args:
        size: height and width; an int is the smaller of both, the shape staying.
        interpolation: "bilinear", "nearest" or "nearest-exact".
        max_size: the most that the larger one may be, where `size` is an int.
        antialias: with "bilinear", let each pixel have a share of all that it covers.

    As `torchvision.transforms.v2.Resize`; uint8 by up to 1 otherwise, since numbers
    are rounded once, not twice.
    """

    size: Any
    interpolation: Any = "bilinear"
    max_size: int | None = None
    antialias: bool = True

    def __post_init__(self) -> None:
        rows, _ = arguments.size(self, self.size)
        arguments.choice(self, "interpolation", self.interpolation, _HOW)
        arguments.flag(self, "antialias", self.antialias)
        if self.max_size is None:
            return
        if arguments.is_sequence(self.size) and len(self.size) == 2:
            raise self.refusal(
                "max_size", self.max_size, "None with a height and width"
            )
        arguments.integer(self, "max_size", self.max_size, rows + 1)

    def add_to(self, chain: Chain) -> None:
        height, width, channels = chain.image()
        rows, columns = self._result(height, width)
        if (rows, columns) == (height, width):
            return
        how = arguments.choice(self, "interpolation", self.interpolation, _HOW)
        if how != "bilinear":
            settings = {
                "in": chain.extent,
                "height": rows,
                "width": columns,
                "centred": int(how == "nearest-exact"),
            }
            chain.move("nearest", settings, (rows, columns, channels))
            return
        add_resample(chain, (rows, columns), antialias=self.antialias)

    def _result(self, height: int, width: int) -> tuple[int, int]:
        if arguments.is_sequence(self.size) and len(self.size) == 2:
            return arguments.size(self, self.size)
        small, _ = arguments.size(self, self.size)
        short, long = sorted((height, width))
        large = small * long // short
        if self.max_size is not None and large > self.max_size:
            small, large = self.max_size * small // large, self.max_size
        small = max(small, 1)
        return (small, large) if height <= width else (large, small)


@dataclass(frozen=True, eq=False)
class RandomResizedCrop(Operation):
    """A window of any place, size and shape, made of one size.

    Args:
        size: height and width of the result; an int is both.
        scale: the window's share of the image's area, least and most.
        ratio: the window's width over its height, least and most.
        interpolation: "bilinear".
        antialias: as in `Resize`.

    As `torchvision.transforms.v2.RandomResizedCrop`. Source: C. Szegedy et al., "Going
    deeper with convolutions" (arXiv:1409.4842), section 6.
    """

    size: Any
    scale: Any = (0.08, 1.0)
    ratio: Any = (3 / 4, 4 / 3)
    interpolation: Any = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        arguments.size(self, self.size)
        arguments.pair(self, "scale", self.scale, 0.0)
        arguments.ratio(self, self.ratio)
        arguments.choice(self, "interpolation", self.interpolation, ("bilinear",))
        arguments.flag(self, "antialias", self.antialias)

    def add_to(self, chain: Chain) -> None:
        chain.image()
        ratio = arguments.ratio(self, self.ratio)
        add_resample(
            chain,
            arguments.size(self, self.size),
            antialias=self.antialias,
            scale=arguments.pair(self, "scale", self.scale),
            ratio=(math.log(ratio[0]), math.log(ratio[1])),
        )


def add_resample(
    chain: Chain,
    size: tuple[int, int],
    *,
    antialias: bool,
    scale: arguments.Pair | None = None,
    ratio: arguments.Pair = (0.0, 0.0),
) -> None:
    """Adds bilinear resizing, of a window if `scale` says so."""
    chain.computes()
    settings = {
        "in": chain.extent,
        "height": size[0],
        "width": size[1],
        "antialias": int(antialias),
        "windowed": int(scale is not None),
        "scale": list(scale or (1.0, 1.0)),
        "ratio": list(ratio),
    }
    chain.resample("resample", settings, (*size, chain.extent[2]), "half up")
