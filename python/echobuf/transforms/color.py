"""`ColorJitter`: other light, other colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from echobuf.transforms import arguments, numbers
from echobuf.transforms.arguments import Pair
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation

_MOST_FACTOR = 1e6
_MOST_PIXELS = 2**25 - 1  # whose mean the core can take


@dataclass(frozen=True, eq=False)
class ColorJitter(Operation):
    """Changes brightness, contrast, saturation and hue, in an order drawn anew.

    Args:
        brightness: the factor, least and most; a number x is (max(0, 1 - x), 1 + x);
            None leaves it.
        contrast: the same.
        saturation: the same.
        hue: by how much of a full turn, least and most, within -0.5 ... 0.5; a number
            x is (-x, x); None leaves it.

    As `torchvision.transforms.v2.ColorJitter`, for 1 or 3 channels, floats in 0 ... 1.
    """

    brightness: Any = None
    contrast: Any = None
    saturation: Any = None
    hue: Any = None

    def __post_init__(self) -> None:
        self._ranges()

    def _ranges(self) -> list[Pair | None]:
        factors = [self._factor(n) for n in ("brightness", "contrast", "saturation")]
        return [*factors, self._hue()]

    def _factor(self, name: str) -> Pair | None:
        value = getattr(self, name)
        if value is None:
            return None
        if arguments.is_sequence(value):
            both = arguments.pair(self, name, value, 0.0, _MOST_FACTOR)
        else:
            x = arguments.number(self, name, value, 0.0, _MOST_FACTOR)
            both = max(0.0, 1.0 - x), 1.0 + x
        return None if both == (1.0, 1.0) else both

    def _hue(self) -> Pair | None:
        if self.hue is None:
            return None
        both = arguments.range_around(self, "hue", self.hue, -0.5)
        if both[1] > 0.5:
            raise self.refusal("hue", self.hue, "within -0.5 ... 0.5")
        return None if both == (0.0, 0.0) else both

    def add_to(self, chain: Chain) -> None:
        height, width, channels = chain.image()
        if channels not in (1, 3):
            raise chain.refusal("takes images of 1 or 3 channels")
        chain.computes()
        ranges = self._ranges()
        if not any(ranges):
            return
        if ranges[1] is not None and height * width > _MOST_PIXELS:
            raise chain.refusal(f"with contrast takes {_MOST_PIXELS:,} pixels at most")
        integer = numbers.is_integer(chain.dtype)
        settings = {
            "in": chain.extent,
            "least": [0.0 if both is None else both[0] for both in ranges],
            "most": [0.0 if both is None else both[1] for both in ranges],
            "active": sum(1 << k for k, both in enumerate(ranges) if both is not None),
            "integer": int(integer),
            "bound": numbers.largest(chain.dtype),
        }
        chain.change("jitter", settings, mean=ranges[1] is not None)
