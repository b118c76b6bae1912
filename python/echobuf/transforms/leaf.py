"""A leaf as the operations of its chain see it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from echobuf import _core
from echobuf.errors import SpecError
from echobuf.field import Field
from echobuf.transforms import dtypes
from echobuf.transforms.lowering import Extent

MOST_NUMBERS = 2**30  # of a leaf: the core counts them, and pixels, in 32 bits
_CHANNELS = ((1, 3), (2, 4))  # that an image has: likely, and less so


class Shown(Protocol):
    """Whatever is shown in messages, and told apart from others by what it is."""


class Leaf(ABC):
    """What a leaf is by now.

    Args:
        name: of the leaf, for messages.
        field: what is stored.
        mixed_images: the extents of images that a mix cuts, by its id; of all leaves.

    Attributes:
        shape: by now.
        dtype: of the numbers by now.
        extent: height, width and channels by now; of what is no image, rows and
            columns.
        order: of the axes: "HWC", "CHW", "HW", or None for what is no image.
    """

    def __init__(
        self, name: str, field: Field, mixed_images: dict[int, Extent]
    ) -> None:
        self.name = name
        self.shape = field.shape
        self.dtype = field.dtype
        self.order: str | None = None
        self.extent: Extent = flat(field.shape)
        self.mixed_images = mixed_images
        self._operation: Shown | None = None  # that is being added
        self._index = -1

    def _check_size(self) -> None:
        if math.prod(self.shape) > MOST_NUMBERS:
            raise self.refusal(f"takes and makes {MOST_NUMBERS:,} numbers at most")

    def refusal(self, what: str) -> SpecError:
        """Return the error for an operation that does not fit."""
        return SpecError(
            f"`transform{self.name}[{self._index}]`, {self._operation!r}, {what}. "
            f"There, the leaf is {self.dtype}{list(self.shape)}."
        )

    def image(self, order: str | None = None) -> Extent:
        """Take the leaf for an image: its height, width and channels.

        Args:
            order: of its axes, if that was said.
        """
        if self.order is None:
            self._make_image(order or self._guess_order())
        return self.extent

    def _guess_order(self) -> str:
        if len(self.shape) == 2:
            return "HW"
        if len(self.shape) != 3:
            raise self.refusal(
                "is for images, of shape [height, width, channels], [channels, height, "
                "width] or [height, width]"
            )
        for likely in _CHANNELS:
            for axis, order in ((2, "HWC"), (0, "CHW")):
                if self.shape[axis] in likely:
                    return order
        raise self.refusal(
            "is for images of 1 to 4 channels; for others say where they are: put "
            'Layout("HWC") or Layout("CHW") first'
        )

    def _make_image(self, order: str) -> None:
        if len(order) != len(self.shape):
            raise self.refusal(f"takes {len(order)} axes")
        axes = dict(zip(order, self.shape, strict=True))
        extent = (axes["H"], axes["W"], axes.get("C", 1))
        if extent[2] > _core.MOST_CHANNELS:
            raise self.refusal(f"takes {_core.MOST_CHANNELS} channels at most")
        if 0 in extent:
            raise self.refusal("takes images that have pixels")
        self.order = order
        self._regroup(extent, planar=order == "CHW")

    def is_image(self) -> bool:
        """Return whether it was taken for an image, or can be and has channels."""
        if self.order is not None:
            return True
        channels = {count for likely in _CHANNELS for count in likely}
        return len(self.shape) == 3 and (
            self.shape[0] in channels or self.shape[2] in channels
        )

    def computes(self) -> None:
        """Raise unless its numbers are uint8 or floats."""
        if self.dtype != np.uint8 and not dtypes.is_float(self.dtype):
            raise self.refusal(
                "takes uint8, float16, bfloat16 and float32: put ToDtype(np.float32) "
                "before it"
            )

    def floats(self) -> None:
        """Raise unless its numbers are floats."""
        if not dtypes.is_float(self.dtype):
            raise self.refusal("takes floats: put ToDtype(np.float32) before it")

    def fitting(self, owner: Shown, name: str, value: float) -> float:
        """Return `value` as a number of the leaf's type."""
        if dtypes.code(self.dtype) == dtypes.OTHER:
            raise self.refusal(f"has `{name}` for what are no real numbers as they are")
        if not dtypes.is_integer(self.dtype):
            with np.errstate(over="ignore"):
                return float(np.asarray(value).astype(self.dtype))
        most = dtypes.largest(self.dtype)
        least = 0 if self.dtype.kind in "bu" else -most - 1
        # The largest of 64 bits are no floats: as integers they are compared, too.
        if not (least <= value <= float(most) and math.trunc(value) <= most):
            raise self.refusal(f"has {value} in `{name}`, which {self.dtype} has not")
        return float(math.trunc(value))

    def within(self, rows: int, columns: int) -> None:
        """Raise unless an image can be so large while it is worked on."""
        if max(rows, columns) > MOST_NUMBERS:
            raise self.refusal(f"makes it {rows:,} x {columns:,}")

    def window_extent(self, axis: int) -> Extent:
        """Rows and columns such that `axis`, the first or the last, is one of them."""
        if self.order is not None:
            raise self.refusal("is for sequences, not for images")
        wanted = flat(self.shape)
        if axis != 0:
            wanted = math.prod(self.shape[:-1]), self.shape[-1], 1
        if wanted != self.extent:
            self._regroup(wanted, planar=False)
        return self.extent

    def mixed_image(self, mix: Shown) -> Extent:
        """Return the image that `mix` cuts a box of, in another chain."""
        if id(mix) not in self.mixed_images:
            raise self.refusal("cuts no image: put it into the chain of one, too")
        return self.mixed_images[id(mix)]

    def table(self) -> Extent:
        """Take the leaf for rows and columns of numbers; of one axis, for one row.

        All axes but the first are columns.
        """
        if self.order == "HW":
            return self.extent
        if self.order is not None:
            raise self.refusal("is for what is no image")
        return self.extent

    @abstractmethod
    def _regroup(self, extent: Extent, *, planar: bool) -> None:
        """The same numbers in other groups, before anything was done to them."""


def flat(shape: tuple[int, ...]) -> Extent:
    """Numbers that are no image: rows, and columns of all that the other axes have."""
    if len(shape) < 2:
        return 1, math.prod(shape), 1
    return shape[0], math.prod(shape[1:]), 1
