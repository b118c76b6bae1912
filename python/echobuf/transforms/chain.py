"""A chain of operations on one leaf, put together to stages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from echobuf import _core
from echobuf.errors import SpecError
from echobuf.field import Field
from echobuf.transforms import numbers
from echobuf.transforms.stages import Draft, Extent, Image, Step

if TYPE_CHECKING:
    from echobuf.transforms.after import After
    from echobuf.transforms.operation import Operation

ORDERS = ("HWC", "CHW", "HW")
MOST_NUMBERS = 2**30  # of a leaf: the core counts them, and pixels, in 32 bits
_CHANNELS = ((1, 3), (2, 4))  # that an image has: likely, and less so


class Chain:
    """What a leaf is, operation by operation.

    Args:
        name: of the leaf, for messages.
        field: what is stored.
        number_of: the number that chance knows an operation by.
        mixed_images: the extents of images that a mix cuts, by its id; of all chains.

    Attributes:
        dtype: of the numbers by now.
        extent: height, width and channels by now; of what is no image, rows and
            columns.
        order: of the axes: "HWC", "CHW", "HW", or None for what is no image.
        after: what is done with whole batches in the end.
        drawn: shape and dtype before that.
    """

    def __init__(
        self,
        name: str,
        field: Field,
        number_of: Callable[[Operation], int],
        mixed_images: dict[int, Extent],
    ) -> None:
        self.name = name
        self.shape = field.shape
        self.dtype = field.dtype
        self.order: str | None = None
        self.extent: Extent = _flat(field.shape)
        self.after: list[After] = []
        self.drawn: tuple[tuple[int, ...], np.dtype[Any]] | None = None
        self.mixed: Operation | None = None
        self.mixed_images = mixed_images
        self._number_of = number_of
        self._operation: Operation | None = None
        self._index = -1
        self._stages: list[_core.Stage] = []
        self._draft = Draft(Image(self.extent, field.dtype, planar=False))
        self._rounding = False  # what comes next must be brought to `dtype` first
        self._stored = True  # the source of the draft is the field

    def add(self, operation: Operation, index: int) -> None:
        """Adds an operation, number `index` in the chain."""
        self._operation = operation
        self._index = index
        if self.after and not getattr(operation, "on_batches", False):
            raise self.refusal("stands behind a Lambda, which comes last")
        self._check_size()
        operation.add_to(self)
        self._check_size()

    def _check_size(self) -> None:
        if math.prod(self.shape) > MOST_NUMBERS:
            raise self.refusal(f"takes and makes {MOST_NUMBERS:,} numbers at most")

    # ---- what operations ask

    def refusal(self, what: str) -> SpecError:
        """The error for an operation that does not fit."""
        return SpecError(
            f"`transform{self.name}[{self._index}]`, {self._operation!r}, {what}. "
            f"There, the leaf is {self.dtype}{list(self.shape)}."
        )

    def image(self, order: str | None = None) -> Extent:
        """Takes the leaf for an image: its height, width and channels.

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
        """Whether it was taken for an image, or can be and has channels."""
        if self.order is not None:
            return True
        channels = {count for likely in _CHANNELS for count in likely}
        return len(self.shape) == 3 and (
            self.shape[0] in channels or self.shape[2] in channels
        )

    def computes(self) -> None:
        """Raises unless its numbers are uint8 or floats."""
        if self.dtype != np.uint8 and not numbers.is_float(self.dtype):
            raise self.refusal(
                "takes uint8, float16, bfloat16 and float32: put ToDtype(np.float32) "
                "before it"
            )

    def floats(self) -> None:
        """Raises unless its numbers are floats."""
        if not numbers.is_float(self.dtype):
            raise self.refusal("takes floats: put ToDtype(np.float32) before it")

    def fitting(self, owner: Operation, name: str, value: float) -> float:
        """`value` as a number of the leaf's type."""
        if numbers.code(self.dtype) == numbers.OTHER:
            raise self.refusal(f"has `{name}` for what are no real numbers as they are")
        if not numbers.is_integer(self.dtype):
            with np.errstate(over="ignore"):
                return float(np.asarray(value).astype(self.dtype))
        most = numbers.largest(self.dtype)
        least = 0 if self.dtype.kind in "bu" else -most - 1
        # The largest of 64 bits are no floats: as integers they are compared, too.
        if not (least <= value <= float(most) and math.trunc(value) <= most):
            raise self.refusal(f"has {value} in `{name}`, which {self.dtype} has not")
        return float(math.trunc(value))

    def within(self, rows: int, columns: int) -> None:
        """Raises unless an image can be so large while it is worked on."""
        if max(rows, columns) > MOST_NUMBERS:
            raise self.refusal(f"makes it {rows:,} x {columns:,}")

    def window_extent(self, axis: int) -> Extent:
        """Rows and columns such that `axis`, the first or the last, is one of them."""
        if self.order is not None:
            raise self.refusal("is for sequences, not for images")
        wanted = _flat(self.shape)
        if axis != 0:
            wanted = math.prod(self.shape[:-1]), self.shape[-1], 1
        if wanted != self.extent:
            self._regroup(wanted, planar=False)
        return self.extent

    def mixed_image(self, mix: Operation) -> Extent:
        """The image that `mix` cuts a box of, in another chain."""
        if id(mix) not in self.mixed_images:
            raise self.refusal("cuts no image: put it into the chain of one, too")
        return self.mixed_images[id(mix)]

    def table(self) -> Extent:
        """Takes the leaf for rows and columns of numbers; of one axis, for one row.

        All axes but the first are columns.
        """
        if self.order == "HW":
            return self.extent
        if self.order is not None:
            raise self.refusal("is for what is no image")
        return self.extent

    def _regroup(self, extent: Extent, *, planar: bool) -> None:
        """The same numbers in other groups, before anything was done to them."""
        if not self._stored or self._draft.moves or self._draft.changes:
            self._cut()  # what is written then lies as the leaf does
        source = self._draft.source
        self._draft.source = Image(extent, source.dtype, planar)
        self.extent = extent

    # ---- what operations do

    def then(self, after: After, field: Field) -> None:
        """Ends the fused part; whole batches are `field` afterwards."""
        if self.drawn is None:
            self.drawn = self.shape, self.dtype
        self.after.append(after)
        self.shape, self.dtype = field.shape, field.dtype

    def move(
        self,
        kind: str,
        settings: dict[str, Any],
        extent: Extent,
        *,
        fills: bool = False,
    ) -> None:
        """Moves pixels: rows and columns apart."""
        draft = self._draft
        fixed = draft.placed or draft.mix is not None or draft.mean or draft.onehot
        if draft.changes and (fixed or fills):
            draft = self._cut()
        if fills and (draft.filled or self._fills_bytes(draft)):
            draft = self._cut()
        draft = self._with_room(draft)
        draft.after.append(self._step(kind, settings))
        draft.filled = draft.filled or fills
        self._resize(extent)

    def _fills_bytes(self, draft: Draft) -> bool:
        """Whether a fill, which is a float, would stand among bytes."""
        return (
            draft.core is None
            and draft.source.dtype.itemsize == 1
            and draft.source.dtype != self.dtype
        )

    def resample(
        self, kind: str, settings: dict[str, Any], extent: Extent, whole: str
    ) -> None:
        """Makes pixels of several pixels."""
        self._settle()
        draft = self._draft
        if draft.core is not None or draft.onehot or draft.changes:
            draft = self._cut()
        draft = self._with_room(draft)
        draft.before, draft.after = draft.after, []
        draft.core = self._step(kind, settings)
        draft.whole = whole if numbers.is_integer(self.dtype) else "no"
        self._rounding = self.dtype.name in ("float16", "bfloat16")
        self._resize(extent)

    def change(
        self,
        kind: str,
        settings: dict[str, Any],
        *,
        placed: bool = False,
        mean: bool = False,
        rounds: bool = True,
    ) -> None:
        """Changes numbers where they are.

        Args:
            kind: the native operation.
            settings: its members.
            placed: it depends on where they are.
            mean: it needs their mean.
            rounds: the result must be brought to `dtype`.
        """
        self._settle()
        draft = self._draft
        if mean and (draft.changes or draft.core is not None):
            draft = self._cut()
        draft = self._with_room(draft)
        draft.mean = draft.mean or mean
        draft.placed = draft.placed or placed
        draft.changes.append(self._step(kind, settings))
        self._rounding = rounds and self.dtype.name in ("float16", "bfloat16")

    def limit(self) -> None:
        """Brings what was made of integers to integers of the leaf's type."""
        if numbers.is_integer(self.dtype):
            self.change("round", {"type": numbers.code(self.dtype)})

    def exchange(self, kind: str, settings: dict[str, Any]) -> None:
        """Puts integers in the place of others."""
        draft = self._draft
        if draft.changes or draft.core is not None or draft.onehot:
            draft = self._cut()
        draft.changes.append(self._step(kind, settings))
        draft.placed = True

    def mix(self, settings: dict[str, Any]) -> None:
        """Mixes with a partner."""
        if self.mixed is not None:
            raise self.refusal("is a second mix in one chain, which takes one")
        self._settle()
        draft = self._with_room(self._draft)
        draft.mix = len(draft.changes)
        draft.changes.append(self._step("mix", settings))
        self.mixed = self._operation
        if not settings["flat"]:
            self.mixed_images[id(self._operation)] = settings["whole"]
        self._rounding = self.dtype.name in ("float16", "bfloat16")

    def classes(self, count: int) -> None:
        """Makes a number the class that it says: 1 there, 0 elsewhere."""
        if self._draft.moves or self._draft.changes:
            self._cut()
        self._draft.onehot = True
        self.dtype = np.dtype(np.float32)
        self.shape = (count,)
        self.extent = (1, count, 1)

    def become(self, dtype: np.dtype[Any], factor: float = 1.0) -> None:
        """Makes numbers floats, multiplied by `factor`."""
        self._settle()
        if any(step.kind == "mask" for step in self._draft.changes):
            self._cut()  # integers are put in the place of integers
        narrower = dtype.name in ("float16", "bfloat16") and dtype != self.dtype
        self.dtype = dtype
        if factor != 1.0:
            self._with_room(self._draft).changes.append(
                self._step("scale", {"factor": factor})
            )
        self._rounding = narrower

    def normalize(self, mean: list[float], deviation: list[float]) -> None:
        """Subtracts and divides; with a scale just before, in one."""
        changes = self._draft.changes
        scale = 1.0
        if changes and changes[-1].kind == "scale" and not self._rounding:
            scale = changes.pop().settings["factor"]
        settings = {"scale": scale, "mean": mean, "deviation": deviation}
        self.change("normalize", settings)

    def channels_first(self) -> None:
        """Puts the axis of channels first in the end."""
        height, width, channels = self.image()
        self.order = "CHW"
        self.shape = (channels, height, width)

    # ---- the result

    def finish(self) -> tuple[_core.ChainPlan | None, Field]:
        """The plan, or None where nothing is done, and what it makes."""
        draft = self._draft
        shape, dtype = self.drawn or (self.shape, self.dtype)
        field = Field(shape, dtype)
        target = self._lies_as_leaf()
        idle = not (draft.moves or draft.changes or draft.onehot)
        if idle and not self._stages and draft.source == target:
            return None, field
        self._stages.append(draft.stage(target))
        return _core.ChainPlan(self._stages), field

    def _lies_as_leaf(self) -> Image:
        dtype = self.drawn[1] if self.drawn else self.dtype
        return Image(self.extent, dtype, planar=self.order == "CHW")

    # ---- stages

    def _step(self, kind: str, settings: dict[str, Any]) -> Step:
        assert self._operation is not None
        return Step(kind, self._number_of(self._operation.chance), settings)

    def _settle(self) -> None:
        """What comes next is given numbers that `dtype` has."""
        if self._rounding:
            self._rounding = False
            code = numbers.code(self.dtype)
            draft = self._with_room(self._draft)
            draft.changes.append(Step("round", 0, {"type": code}))

    def _with_room(self, draft: Draft) -> Draft:
        return draft if draft.count() < _core.MOST_OPERATIONS else self._cut()

    def _cut(self) -> Draft:
        """What was done so far is written to memory, and read from there."""
        target = Image(self.extent, self.dtype, planar=True)
        if self.order is None:
            target = self._lies_as_leaf()
        self._stages.append(self._draft.stage(target))
        self._rounding = False
        self._stored = False
        self._draft = Draft(target)
        return self._draft

    def _resize(self, extent: Extent) -> None:
        self.extent = extent
        if self.order is not None:
            axes = dict(zip("HWC", extent, strict=True))
            self.shape = tuple(axes[axis] for axis in self.order)


def _flat(shape: tuple[int, ...]) -> Extent:
    """Numbers that are no image: rows, and columns of all that the other axes have."""
    if len(shape) < 2:
        return 1, math.prod(shape), 1
    return shape[0], math.prod(shape[1:]), 1
