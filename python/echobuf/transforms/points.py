"""`BoundingBoxes` and `Keypoints`: numbers that follow the pixels of an image."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf.transforms import arguments
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation

__all__ = ["BoundingBoxes", "Keypoints"]


def _outside(owner: Operation, name: str, value: Any) -> float:
    with contextlib.suppress(Exception):  # of any type that is no number of Python's
        if math.isnan(value):
            return math.nan
    return arguments.float32(owner, name, value)


@dataclass(frozen=True, eq=False)
class Following(Operation):
    """The base of `BoundingBoxes` and `Keypoints`."""

    image: Any
    outside: Any = -1.0
    _arguments = arguments.checks(image=arguments.key, outside=_outside)

    def add_to(self, chain: Chain) -> None:
        raise chain.refusal("comes first in its chain, and only there")


@dataclass(frozen=True, eq=False)
class BoundingBoxes(Following):
    """Bounding boxes, which follow the pixels of an image; first in their chain.

    The leaf is [N, 4] (or any [..., 4]): x1, y1, x2, y2 in pixels of the stored image,
    of any real dtype; batches have it as float32. Operations after it, which are those
    of the image, move the boxes with the same random choices as its pixels: crops,
    affine maps and perspectives clip them, a rotated box becomes the one around its
    four corners. What changes colours or dtypes leaves them as they are.

    A box of which less than `min_size` is left in width or height, and each row that is
    `outside` already, becomes `outside` in all four numbers: records have a fixed size,
    so N is the largest number of boxes, and rows that an image has not are stored so.

    Args:
        image: the key of the image's leaf, as in `transform`; its height and width are
            those of the spec.
        outside: a number; may be NaN.
        min_size: in pixels of the result; 0: boxes that have an area stay.

    As `torchvision.transforms.v2` on `tv_tensors.BoundingBoxes` of format XYXY,
    followed by its `ClampBoundingBoxes` and `SanitizeBoundingBoxes`.

    Raises:
        OptionError: the spec has no such image.
        SpecError: it is no image, or the leaf is not [..., 4].

    Examples:
        >>> example = {
        ...     "image": np.zeros((8, 8, 3), np.uint8),
        ...     "boxes": np.array([[1, 0, 3, 4], [-1, -1, -1, -1]], np.float32),
        ... }
        >>> flip = T.RandomHorizontalFlip(p=1)
        >>> transform = {"image": [flip], "boxes": [T.BoundingBoxes("image"), flip]}
        >>> loader = EchoLoader([example], batch_size=1, transform=transform)
        >>> next(iter(loader))["boxes"][0]
        array([[ 5.,  0.,  7.,  4.],
               [-1., -1., -1., -1.]], dtype=float32)
    """

    min_size: float = 1.0
    _arguments = arguments.checks(min_size=arguments.float32s(0.0))


@dataclass(frozen=True, eq=False)
class Keypoints(Following):
    """Points, which follow the pixels of an image; first in their chain.

    The leaf is [N, 2] (or any [..., 2]): x, y in pixels of the stored image, of any
    real dtype; batches have it as float32. Operations after it, which are those of the
    image, move the points with the same random choices as its pixels. What changes
    colours or dtypes leaves them as they are.

    A point that a crop, an affine map or a perspective puts outside of the image, that
    is there at the end, or that is `outside` already, becomes `outside` in both
    numbers.

    Args:
        image: the key of the image's leaf, as in `transform`; its height and width are
            those of the spec.
        outside: a number; may be NaN.

    As `torchvision.transforms.v2` on `tv_tensors.KeyPoints`, followed by its
    `SanitizeKeyPoints`: a flip makes x to width - 1 - x.

    Raises:
        OptionError: the spec has no such image.
        SpecError: it is no image, or the leaf is not [..., 2].

    Examples:
        >>> example = {
        ...     "image": np.zeros((8, 8, 3), np.uint8),
        ...     "points": np.array([[0, 0], [2, 5]], np.float32),
        ... }
        >>> flip = T.RandomHorizontalFlip(p=1)
        >>> transform = {"image": [flip], "points": [T.Keypoints("image"), flip]}
        >>> loader = EchoLoader([example], batch_size=1, transform=transform)
        >>> next(iter(loader))["points"][0]
        array([[7., 0.],
               [5., 5.]], dtype=float32)
    """


def numbers_of(following: Following) -> int:
    """Return how many numbers make one row."""
    return 4 if isinstance(following, BoundingBoxes) else 2


def least_of(following: Following) -> float:
    """Return the width and height that a row has at least."""
    return following.min_size if isinstance(following, BoundingBoxes) else 0.0


def members_of(following: Following) -> dict[str, Any]:
    """Return the members that all native operations on such rows have."""
    bits = np.float32(following.outside).view(np.uint32)
    boxes = isinstance(following, BoundingBoxes)
    return {"boxes": int(boxes), "outside": int(bits)}
