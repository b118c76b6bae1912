"""Gaussian blur."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from echobuf.transforms import arguments
from echobuf.transforms.arguments import Pair
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import OnImages, Operation

__all__ = ["GaussianBlur"]

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
