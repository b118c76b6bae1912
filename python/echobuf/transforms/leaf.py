"""The state of a leaf between two operations of its chain."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from echobuf import _core
from echobuf.errors import SpecError, show
from echobuf.field import Field
from echobuf.transforms import dtypes
from echobuf.transforms.lowering import Extent
from echobuf.transforms.operation import Operation

MOST_NUMBERS = 2**30  # of a leaf: the core counts them, and pixels, in 32 bits
_CHANNELS = ((1, 3), (2, 4))  # numbers of channels of an image: likely, less likely
_ORDERS = {3: ("HWC", "CHW"), 4: ("THWC", "TCHW")}


class Leaf(ABC):
    """A leaf after the operations added so far: its shape, dtype and axes.

    Args:
        name: of the leaf, for messages.
        field: of the record.
        mixed_images: the extents of images that a mix cuts, by its id; of all leaves.

    Attributes:
        shape: after the operations so far.
        dtype: of the numbers after the operations so far.
        extent: height, width and channels, of a frame; rows and columns if it is no
            image.
        order: of the axes: "HWC", "CHW", "HW", these behind "T" for a clip, or None if
            it is no image.
        frames: of a clip; 1 for others.
        is_mask: whether its numbers are classes, which are not interpolated.
        mask_fill: the class outside of a mask; None: the operations' own.
        index: of the operation that is being added, or of its container.
        taken_for: the order of axes when the leaf was taken for an image, or None.
        subject: what has this shape and dtype, for messages.
    """

    def __init__(
        self, name: str, field: Field, mixed_images: dict[int, list[Extent]]
    ) -> None:
        self.name = name
        self.shape = field.shape
        self.dtype = field.dtype
        self.order: str | None = None
        self.is_mask = False
        self.mask_fill: float | None = None
        self.taken_for: str | None = None
        self.subject = "the leaf"
        self.extent: Extent = flat(field.shape)
        self.frames = 1
        self.mixed_images = mixed_images
        self._operation: Operation | None = None  # that is being added
        self.index = -1

    def _check_size(self) -> None:
        if math.prod(self.shape) > MOST_NUMBERS:
            raise self.refusal(f"takes and makes {MOST_NUMBERS:,} numbers at most")

    def refusal(self, what: str) -> SpecError:
        """Return the error for an operation that does not fit."""
        return SpecError(
            f"`transform{self.name}[{self.index}]`, {show(self._operation)}, {what}. "
            f"There, {self.subject} is {self.dtype}{show(self.shown_shape())}."
        )

    def shown_shape(self) -> list[int | None]:
        """Return the shape for messages."""
        return list(self.shape)

    def image(self, order: str | None = None) -> Extent:
        """Take the leaf for an image or a clip: its height, width and channels.

        Args:
            order: of its axes, if the caller has given it.
        """
        if self.order is None:
            self._make_image(order or self._guess_order())
        return self.extent

    def _guess_order(self) -> str:
        if len(self.shape) == 2:
            return "HW"
        orders = _ORDERS.get(len(self.shape))
        if orders is None:
            raise self.refusal(
                "is for images, of shape [height, width, channels], [channels, height, "
                "width] or [height, width], and clips of such frames"
            )
        for likely in _CHANNELS:
            for order in orders:
                if self.shape[order.index("C")] in likely:
                    return order
        first, second = orders
        raise self.refusal(
            "is for images of 1 to 4 channels; for others say where they are: put "
            f'Layout("{first}") or Layout("{second}") first'
        )

    def _make_image(self, order: str) -> None:
        if len(order) != len(self.shape):
            raise self.refusal(f"takes {len(order)} axes")
        axes = dict(zip(order, self.shape, strict=True))
        extent = (axes["H"], axes["W"], axes.get("C", 1))
        if extent[2] > _core.MOST_CHANNELS:
            raise self.refusal(f"takes {_core.MOST_CHANNELS} channels at most")
        frames = axes.get("T", 1)
        if 0 in (*extent, frames):
            raise self.refusal("takes images that have pixels")
        self.order = self.taken_for = order
        self._regroup(extent, planar=order.endswith("CHW"), frames=frames)

    def is_image(self) -> bool:
        """Return whether the leaf is an image or clip, or can be one with channels."""
        if self.order is not None:
            return True
        channels = {count for likely in _CHANNELS for count in likely}
        orders = _ORDERS.get(len(self.shape), ())
        return any(self.shape[order.index("C")] in channels for order in orders)

    def colours(self) -> int:
        """Return the channels of an image of 1 or 3 channels; raise for others."""
        channels = self.extent[2]
        if channels not in (1, 3):
            raise self.refusal("takes images of 1 or 3 channels")
        return channels

    def for_channels(self, name: str, values: Sequence[float]) -> list[float]:
        """Return the numbers of an argument, one of which is for all channels."""
        channels = self.extent[2]
        if len(values) not in (1, channels):
            raise self.refusal(
                f"has {len(values)} numbers in `{name}` for {channels} channels"
            )
        return list(values) * (channels if len(values) == 1 else 1)

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

    def fitting(
        self, owner: Operation, name: str, value: float, *, rounds: bool = False
    ) -> float:
        """Return `value` as a number of the leaf's type.

        Args:
            owner: the operation.
            name: the argument.
            value: for integers its fraction is cut off, as torchvision does.
            rounds: for integers, bring it to the nearest one instead, of two the even.
        """
        if dtypes.code(self.dtype) == dtypes.OTHER:
            raise self.refusal(f"has `{name}` for what are no real numbers as they are")
        if not dtypes.is_integer(self.dtype):
            with np.errstate(over="ignore"):
                return float(np.asarray(value).astype(self.dtype))
        whole = round(value) if rounds else math.trunc(value)
        most = dtypes.largest(self.dtype)
        least = 0 if self.dtype.kind in "bu" else -most - 1
        # The largest of 64 bits are no floats: as integers they are compared, too.
        if not (least <= value <= float(most) and whole <= most):
            raise self.refusal(f"has {value} in `{name}`, which {self.dtype} has not")
        return float(whole)

    def within(self, rows: int, columns: int) -> None:
        """Raise if an intermediate image is larger than the core's limits."""
        if max(rows, columns) > MOST_NUMBERS:
            raise self.refusal(
                f"makes it {rows:,} x {columns:,}; an image has {MOST_NUMBERS:,} rows "
                "and columns at most"
            )

    def window_extent(self, axis: int) -> Extent:
        """Group numbers to rows and columns; `axis`, first or last, is one of these."""
        if axis > 0 and self.order in ("HW", "CHW"):
            return self.extent  # of a spectrogram, say: its columns are that axis
        if self.order is not None:
            raise self.refusal("is for sequences, not for images")
        wanted = flat(self.shape)
        if axis != 0:
            wanted = math.prod(self.shape[:-1]), self.shape[-1], 1
        if wanted != self.extent:
            self._regroup(wanted, planar=False, frames=1)
        return self.extent

    def mixed_image(self, mix: Operation) -> Extent:
        """Return the image that `mix` cuts a box of, in other chains."""
        images = self.mixed_images.get(id(mix), [])
        if not images:
            raise self.refusal("cuts no image: put it into the chain of one, too")
        sizes = sorted({image[:2] for image in images})
        if len(sizes) > 1:
            shown = " and ".join(f"{height} x {width}" for height, width in sizes)
            raise self.refusal(
                f"cuts images of {shown}, of which its boxes are other shares: make "
                "them of one size, or say labels=None"
            )
        return images[0]

    def table(self) -> Extent:
        """Take the leaf for rows and columns of numbers; of one axis, for one row.

        All axes but the first are columns.
        """
        if self.order == "HW":
            return self.extent
        if self.order is not None:
            raise self.refusal("is for what is no image")
        return self.extent

    def spectrogram(self) -> Extent:
        """Take the leaf for rows of frequencies and columns of time, in channels."""
        if len(self.shape) not in (2, 3):
            raise self.refusal(
                "is for spectrograms, of shape [frequency, time] or [channel, "
                "frequency, time]"
            )
        if not dtypes.is_float(self.dtype):
            raise self.refusal(
                "is for spectrograms of floats: put ToDtype(np.float32) before it"
            )
        if self.order is None and len(self.shape) == 3:
            self._make_image("CHW")
        if self.order not in (None, "HW", "CHW"):
            raise self.refusal(
                "is for spectrograms [channel, frequency, time], and the leaf is taken "
                f'for an image {self.order}: put Layout("CHW") first'
            )
        return self.extent

    @abstractmethod
    def _regroup(self, extent: Extent, *, planar: bool, frames: int) -> None:
        """Group the same numbers otherwise, before any step has changed them."""


def flat(shape: tuple[int, ...]) -> Extent:
    """Return the extent of numbers that are no image: axis 0, and the other axes."""
    if len(shape) < 2:
        return 1, math.prod(shape), 1
    return shape[0], math.prod(shape[1:]), 1
