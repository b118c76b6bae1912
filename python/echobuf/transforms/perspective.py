"""Perspective: the corners of an image moved inside of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from echobuf.transforms import arguments
from echobuf.transforms.chain import Chain
from echobuf.transforms.crops import filling
from echobuf.transforms.operation import Operation
from echobuf.transforms.resampling import warp_mode

__all__ = ["RandomPerspective"]


@dataclass(frozen=True, eq=False)
class RandomPerspective(Operation):
    """Images seen from another point, with a probability.

    Each corner is moved to any place in a rectangle of pixels at that corner, and the
    image follows by the projective map that the corners define. If they lie on a line,
    the image stays as it is.

    Args:
        distortion_scale: the share of half of the image's height and width that a
            corner is moved by at most, from 0 to 1.
        p: with which probability.
        interpolation: "nearest" or "bilinear".
        fill: the value outside the image: a number, or one for each channel; of uint8
            rounded to a whole one, of two the even one.

    As `torchvision.transforms.v2.RandomPerspective`.

    Examples:
        >>> image = np.full((4, 6), 255, np.uint8)
        >>> chain = [
        ...     T.RandomPerspective(distortion_scale=0.5, p=1, interpolation="nearest")
        ... ]
        >>> loader = EchoLoader([image], batch_size=1, transform=chain)
        >>> next(iter(loader))[0] // 255
        array([[1, 1, 0, 0, 0, 0],
               [1, 1, 1, 1, 1, 0],
               [1, 1, 1, 1, 1, 0],
               [0, 0, 0, 1, 1, 1]], dtype=uint8)
    """

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: Any = "bilinear"
    fill: Any = 0
    _arguments = arguments.checks(
        distortion_scale=arguments.numbers(0.0, 1.0),
        p=arguments.probability,
        interpolation=warp_mode,
        fill=arguments.numbers_of,
    )

    def add_to(self, chain: Chain) -> None:
        height, width, _ = chain.image()
        chain.computes()
        how, share = self._value("interpolation"), self._value("distortion_scale")
        settings = {
            "in": chain.extent,
            "bilinear": int(how == "bilinear" and not chain.is_mask),
            "p": float(self.p),
            "down": int(share * (height // 2)) + 1,
            "right": int(share * (width // 2)) + 1,
            "fill": filling(self, chain, self.fill, rounds=True),
        }
        chain.resample("perspective", settings, chain.extent, "half even")
