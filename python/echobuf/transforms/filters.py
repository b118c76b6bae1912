"""Operations that make a pixel of it and its neighbours: blur, sharpness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echobuf.transforms import arguments, dtypes
from echobuf.transforms.arguments import Pair
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import OnImages, Operation

__all__ = ["GaussianBlur", "RandomAdjustSharpness", "Sharpness"]

_MOST_SIZE = 255  # of a kernel; `Blur::kMostRadius` of the core is half of it


def _sizes(owner: Operation, name: str, value: Any) -> tuple[int, int]:
    allowed = f"an odd int up to {_MOST_SIZE}, or two, for columns and rows"
    given = value if arguments.is_sequence(value) else [value]
    if len(given) not in (1, 2):
        raise owner.refusal(name, value, allowed)
    sizes = [arguments.integer(owner, name, size, 1, _MOST_SIZE) for size in given]
    if not all(size % 2 for size in sizes):
        raise owner.refusal(name, value, allowed)
    return sizes[0], sizes[-1]


def _sigmas(owner: Operation, name: str, value: Any) -> Pair:
    given = value if arguments.is_sequence(value) else [value]
    if len(given) == 1:
        given = [given[0], given[0]]
    low, high = arguments.pair(owner, name, given)
    if low <= 0:
        raise owner.refusal(name, value, "above 0")
    return low, high


@dataclass(frozen=True, eq=False)
class GaussianBlur(OnImages):
    """Images blurred by a Gaussian kernel whose width is drawn anew each time.

    Past its edges an image is mirrored, without the pixel at the edge, so that it must
    have more than half as many rows and columns as the kernel.

    Args:
        kernel_size: columns and rows of the kernel, odd numbers up to 255; an int is
            both.
        sigma: the standard deviation in pixels, least and most, above 0; a number is
            both.

    As `torchvision.transforms.v2.GaussianBlur`; uint8 are rounded once. Masks stay as
    they are.

    Raises:
        OptionError: sizes that are even or too large, standard deviations of 0 or less.
        SpecError: the image is too small for the kernel, or no image.

    Examples:
        >>> image = np.zeros((3, 5), np.uint8)
        >>> image[:, 2] = 100
        >>> chain = [T.GaussianBlur(kernel_size=3, sigma=1.0)]
        >>> next(iter(EchoLoader([image], batch_size=1, transform=chain)))[0]
        array([[ 0, 27, 45, 27,  0],
               [ 0, 27, 45, 27,  0],
               [ 0, 27, 45, 27,  0]], dtype=uint8)
    """

    kernel_size: Any
    sigma: Any = (0.1, 2.0)
    _arguments = arguments.checks(kernel_size=_sizes, sigma=_sigmas)

    def _add(self, chain: Chain) -> None:
        height, width, _ = chain.extent
        columns, rows = self._value("kernel_size")
        if rows // 2 >= height or columns // 2 >= width:
            raise chain.refusal(
                f"mirrors {rows // 2} rows and {columns // 2} columns past the edges "
                f"of an image of {height} x {width}, which must have more: take a "
                "smaller `kernel_size`"
            )
        settings = {
            "in": chain.extent,
            "radius": [rows // 2, columns // 2],
            "sigma": list(self._value("sigma")),
        }
        chain.resample("blur", settings, chain.extent, "half even")


_MOST_FACTOR = 1e6
_factor = arguments.numbers(0.0, _MOST_FACTOR)


@dataclass(frozen=True, eq=False)
class Sharpness(OnImages):
    """Images made sharper, or less sharp, always.

    Args:
        factor: 0 is the mean of the pixels around, 1 the image as it is, 2 twice as
            sharp; from 0 on.

    As `torchvision.transforms.v2.functional.adjust_sharpness`, for 1 or 3 channels,
    floats in 0 ... 1. Pixels at the edge, and masks, stay as they are.

    Examples:
        >>> image = np.full((3, 5), 100, np.uint8)
        >>> image[:, 2:] = 160
        >>> loader = EchoLoader([image], batch_size=1, transform=[T.Sharpness(2.0)])
        >>> next(iter(loader))[0]
        array([[100, 100, 160, 160, 160],
               [100,  86, 174, 160, 160],
               [100, 100, 160, 160, 160]], dtype=uint8)
    """

    factor: Any
    _of_colours = True
    _arguments = arguments.checks(factor=_factor)

    def _add(self, chain: Chain) -> None:
        add_sharpen(chain, [1.0 - self._value("factor")])


@dataclass(frozen=True, eq=False)
class RandomAdjustSharpness(OnImages):
    """Images made sharper, or less sharp, with a probability.

    Args:
        sharpness_factor: as `factor` of `Sharpness`.
        p: with which probability.

    As `torchvision.transforms.v2.RandomAdjustSharpness`, for 1 or 3 channels, floats in
    0 ... 1. Pixels at the edge, and masks, stay as they are.

    Examples:
        >>> image = np.full((3, 5), 100, np.uint8)
        >>> image[:, 2:] = 160
        >>> chain = [T.RandomAdjustSharpness(0.0, p=1)]
        >>> next(iter(EchoLoader([image], batch_size=1, transform=chain)))[0]
        array([[100, 100, 160, 160, 160],
               [100, 114, 146, 160, 160],
               [100, 100, 160, 160, 160]], dtype=uint8)
    """

    sharpness_factor: Any
    p: float = 0.5
    _of_colours = True
    _arguments = arguments.checks(sharpness_factor=_factor, p=arguments.probability)

    def _add(self, chain: Chain) -> None:
        add_sharpen(chain, [1.0 - self._value("sharpness_factor")], p=float(self.p))


def add_sharpen(
    chain: Chain, shares: Sequence[float], *, p: float = 1.0, either: bool = False
) -> None:
    """Add sharpness with a probability, one of some shares of the mean: 1 - factor.

    With `either` the sign of the share is drawn, too.
    """
    settings = {
        "in": chain.extent,
        "integer": int(dtypes.is_integer(chain.dtype)),
        "bound": dtypes.largest(chain.dtype),
        "p": p,
        "levels": (list(shares), either),
    }
    chain.resample("sharpen", settings, chain.extent, "no")
