"""The chain of operations on one leaf, which it groups into stages."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.field import Field
from echobuf.output_spec import BatchFunction
from echobuf.transforms import dtypes
from echobuf.transforms.leaf import Leaf, flat
from echobuf.transforms.lowering import (
    LEAF,
    Draft,
    Extent,
    Gate,
    Image,
    Step,
    Written,
    lowered,
)
from echobuf.transforms.operation import Operation, Place, words_of

MOST_STAGES = 512
Move = tuple[Step, tuple[Gate, ...]]


class Chain(Leaf):
    """The operations on a leaf, which are added one by one.

    Args:
        name: of the leaf, for messages.
        field: what is stored.
        mixed_images: the extents of images that a mix cuts, by its id; of all chains.

    Attributes:
        functions: those on whole batches, in order.
        drawn: shape and dtype before that.
        mixed: its mix, or one of them where a container chooses among several; or None.
        interpolated: the last operation that made integers of several ones, or None.
        place: that of the operation that is being added.
        named: the operation that messages name in place of those inside of it, or None.
        gates: of the stages that are being added.
        buffers: numbers of images between stages.
        moves: the steps that move pixels or make them of several, in order, each with
            the gates of its stage.
    """

    def __init__(
        self,
        name: str,
        field: Field,
        mixed_images: dict[int, list[Extent]],
    ) -> None:
        super().__init__(name, field, mixed_images)
        self.functions: list[BatchFunction] = []
        self.drawn: tuple[tuple[int, ...], np.dtype[Any]] | None = None
        self.mixed: Operation | None = None
        self.interpolated: Operation | None = None
        self.place: Place | None = None
        self.named: Operation | None = None
        self.gates: tuple[Gate, ...] = ()
        self.moves: list[Move] = []
        self._stages: list[Written] = []
        self.buffers = itertools.count()
        self._draft = Draft(Image(self.extent, field.dtype, planar=False))
        self._rounding = (
            False  # numbers must be rounded to `dtype` before the next step
        )

    def add(self, place: Place, index: int) -> None:
        """Add the operation at a place, in number `index` of the chain or being it."""
        operation: Any = place.operation
        self.begin(place, index)
        if self.functions and not getattr(operation, "on_batches", False):
            raise self.refusal("stands behind a Lambda, which comes last")
        self._check_operation(operation)
        self._check_size()
        operation.add_to(self)
        self._check_size()

    def begin(self, place: Place, index: int) -> None:
        """Say which operation messages are about from now on."""
        self._operation = self.named or place.operation
        self.place = place
        self.index = index

    def _check_operation(self, operation: Any) -> None:
        """Raise `SpecError` for an operation that such a chain does not take."""

    @property
    def _link(self) -> Operation:
        assert self.place is not None
        return self.place.operation

    def _regroup(self, extent: Extent, *, planar: bool, frames: int) -> None:
        """Group the same numbers otherwise, before any step has changed them."""
        if self._draft.moves or self._draft.changes:
            if extent[2] == 1 and (extent, frames) == (self.extent, self.frames):
                return  # one channel lies the same way first and last
            self._cut()  # the stage's result then lies in memory as the leaf does
        self._draft.source = replace(
            self._draft.source, extent=extent, planar=planar, frames=frames
        )
        self.extent = extent
        self.frames = frames

    # ---- calls of operations

    def then(self, function: BatchFunction, field: Field) -> None:
        """End the fused part with a function, whose result is `field`."""
        if self.drawn is None:
            self.drawn = self.shape, self.dtype
        self.functions.append(function)
        self.shape, self.dtype = field.shape, field.dtype

    def move(
        self,
        kind: str,
        settings: dict[str, Any],
        extent: Extent,
        *,
        fills: bool = False,
    ) -> None:
        """Move pixels: rows and columns apart."""
        draft = self._draft
        fixed = draft.placed or draft.mix is not None or draft.statistic or draft.onehot
        if draft.changes and (fixed or fills):
            draft = self._cut()
        if fills and (draft.filled or self._fills_bytes(draft)):
            draft = self._cut()
        draft = self._with_room(draft)
        draft.after.append(self._move_step(kind, settings))
        draft.filled = draft.filled or fills
        self._resize(extent)

    def _fills_bytes(self, draft: Draft) -> bool:
        """Return whether a fill, which is a float, would be put among bytes."""
        return (
            draft.core is None
            and draft.source.dtype.itemsize == 1
            and draft.source.dtype != self.dtype
        )

    def resample(
        self, kind: str, settings: dict[str, Any], extent: Extent, whole: str
    ) -> None:
        """Make pixels of several pixels."""
        self._settle()
        nearest = not settings.get("bilinear", True)
        if dtypes.is_integer(self.dtype) and not nearest:
            self.interpolated = self._link
        draft = self._draft
        if draft.core is not None or draft.onehot or draft.changes:
            draft = self._cut()
        draft = self._with_room(draft)
        draft.before, draft.after = draft.after, []
        draft.core = self._move_step(kind, settings)
        draft.whole = whole if dtypes.is_integer(self.dtype) else "no"
        self._rounding = self.dtype.name in ("float16", "bfloat16")
        self._resize(extent)

    def change(
        self,
        kind: str,
        settings: dict[str, Any],
        *,
        placed: bool = False,
        statistic: bool = False,
        rounds: bool = True,
    ) -> None:
        """Change numbers where they are.

        Args:
            kind: the native operation.
            settings: its members.
            placed: it depends on where they are.
            statistic: it needs one of the whole image.
            rounds: the result must be brought to `dtype`.
        """
        self._settle()
        draft = self._draft
        if statistic and (draft.changes or draft.core is not None):
            draft = self._cut()
        draft = self._with_room(draft)
        draft.statistic = draft.statistic or statistic
        draft.placed = draft.placed or placed
        draft.changes.append(self._step(kind, settings))
        self._rounding = rounds and self.dtype.name in ("float16", "bfloat16")

    def recolour(self, kind: str, settings: dict[str, Any], channels: int) -> None:
        """Change pixels to pixels of `channels` channels."""
        self._settle()
        draft = self._draft
        if draft.changes:
            draft = self._cut()  # what comes before it has the channels of its source
        draft = self._with_room(draft)
        draft.changes.append(self._step(kind, settings))
        self._rounding = self.dtype.name in ("float16", "bfloat16")
        self._resize((*self.extent[:2], channels))

    def limit(self) -> None:
        """Round results of integers to integers of the leaf's type."""
        if dtypes.is_integer(self.dtype):
            self.change("round", {"type": dtypes.code(self.dtype)})

    def exchange(self, kind: str, settings: dict[str, Any]) -> None:
        """Put integers in the place of others."""
        draft = self._draft
        if draft.changes or draft.core is not None or draft.onehot:
            draft = self._cut()
        draft.changes.append(self._step(kind, settings))
        draft.placed = True

    def mix(self, settings: dict[str, Any]) -> None:
        """Mix with a partner."""
        if self.mixed is not None:
            raise self.refusal("is a second mix in one chain, which takes one")
        self._settle()
        draft = self._with_room(self._draft)
        draft.mix = len(draft.changes)
        draft.changes.append(self._step("mix", settings))
        self.mixed = self._link
        if not settings["flat"]:
            images = self.mixed_images.setdefault(id(self._link), [])
            images.append(settings["whole"])
        self._rounding = self.dtype.name in ("float16", "bfloat16")

    def classes(self, count: int) -> None:
        """Make a label one-hot: `count` numbers, 1 at its class and 0 elsewhere."""
        if self._draft.moves or self._draft.changes:
            self._cut()
        self._draft.onehot = True
        self.dtype = np.dtype(np.float32)
        self.shape = (count,)
        self.extent = (1, count, 1)

    def become(self, dtype: np.dtype[Any], factor: float = 1.0) -> None:
        """Make numbers floats, multiplied by `factor`."""
        self._settle()
        if any(step.kind == "mask" for step in self._draft.changes):
            self._cut()  # masks replace integers by integers
        narrower = dtype.name in ("float16", "bfloat16") and dtype != self.dtype
        self.dtype = dtype
        if factor != 1.0:
            self._with_room(self._draft).changes.append(
                self._step("scale", {"factor": factor})
            )
        self._rounding = narrower

    def normalize(self, mean: list[float], deviation: list[float]) -> None:
        """Subtract the mean and divide; a scale just before joins the same step."""
        changes = self._draft.changes
        scale = 1.0
        if changes and changes[-1].kind == "scale" and not self._rounding:
            scale = changes.pop().settings["factor"]
        settings = {"scale": scale, "mean": mean, "deviation": deviation}
        self.change("normalize", settings)

    def channels_first(self) -> None:
        """Put the axis of channels first in the result."""
        self.image()
        assert self.order is not None
        self.order = "TCHW" if "T" in self.order else "CHW"
        self._resize(self.extent)

    # ---- branches of containers: see branching.py

    def begin_branch(self, *gates: Gate) -> None:
        """Make a copy of a chain a branch of it, whose stages have some gates more."""
        self._stages = []
        self.moves = []
        self.gates += gates
        self._draft = copy.deepcopy(self._draft)

    def end_branch(self, buffer: int) -> list[Written]:
        """Return the stages of the branch, the last of which writes `buffer`."""
        self._write(buffer)
        return self._stages

    def join(self, one: Chain, buffer: int, stages: Sequence[Written]) -> None:
        """Go on with what branches that end like `one` have written to `buffer`."""
        self._stages += stages
        if len(self._stages) > MOST_STAGES:
            raise self.refusal(
                f"makes it a chain of {len(self._stages)} passes over memory, one for "
                f"each alternative of its containers; {MOST_STAGES} are allowed: nest "
                "fewer containers and automatic augmentations"
            )
        self.shape, self.dtype, self.order = one.shape, one.dtype, one.order
        self.extent = flat(self.shape) if self.order is None else one.extent
        self.frames = one.frames
        self._draft = Draft(self._between(), buffer=buffer)
        self._rounding = False

    def end_stage(self) -> None:
        """Cut if the draft has steps; the next one then reads what they made."""
        if not self._draft.idle:
            self._cut()

    # ---- the result

    def finish(self) -> tuple[_core.ChainPlan | None, Field]:
        """Return the plan, or None if the chain is idle, and its result's field."""
        draft = self._draft
        shape, dtype = self.drawn or (self.shape, self.dtype)
        field = Field(shape, dtype)
        target = self._lies_as_leaf()
        if draft.idle and not self._stages and draft.source == target:
            return None, field
        if draft.idle and self._stages and draft.source.dtype == target.dtype:
            self._write_to_leaf(draft.buffer, planar=target.planar)
        else:
            self._stages.append(Written(draft, target, LEAF, self.gates))
        return _core.ChainPlan(lowered(self._stages)), field

    def _write_to_leaf(self, buffer: int, *, planar: bool) -> None:
        """Let the stages that write a buffer write the leaf."""
        for stage in self._stages:
            if stage.buffer == buffer:
                stage.buffer = LEAF
                stage.target = replace(
                    stage.target, planar=stage.target.planar and planar
                )

    def _lies_as_leaf(self) -> Image:
        dtype = self.drawn[1] if self.drawn else self.dtype
        planar = self.order is not None and self.order.endswith("CHW")
        return Image(self.extent, dtype, planar, self.frames)

    # ---- stages

    def _step(self, kind: str, settings: dict[str, Any]) -> Step:
        assert self.place is not None
        return Step(kind, self._number, settings)

    @property
    def _number(self) -> int:
        """The number of the operation in random draws, and what keys its words."""
        assert self.place is not None
        return self.place.number | words_of(self.place.operation)

    def _move_step(self, kind: str, settings: dict[str, Any]) -> Step:
        step = self._step(kind, settings)
        self.moves.append((step, self.gates))
        return step

    def _settle(self) -> None:
        """Round numbers to `dtype` before the next step, if they are not rounded."""
        if self._rounding:
            self._rounding = False
            code = dtypes.code(self.dtype)
            draft = self._with_room(self._draft)
            draft.changes.append(Step("round", 0, {"type": code}))

    def _with_room(self, draft: Draft) -> Draft:
        return draft if draft.count() < _core.MOST_OPERATIONS else self._cut()

    def _cut(self) -> Draft:
        """End the current stage, whose result the next one reads from memory."""
        buffer = next(self.buffers)
        self._write(buffer)
        self._rounding = False
        self._draft = Draft(self._between(), buffer=buffer)
        return self._draft

    def _write(self, buffer: int) -> None:
        target = self._between()
        self._stages.append(Written(self._draft, target, buffer, self.gates))

    def _between(self) -> Image:
        """Return the image as it lies between stages: what is none, as in the leaf."""
        planar = self.order is not None
        return Image(self.extent, self.dtype, planar, self.frames)

    def _resize(self, extent: Extent) -> None:
        self.extent = extent
        if self.order is not None:
            axes = dict(zip("THWC", (self.frames, *extent), strict=True))
            self.shape = tuple(axes[axis] for axis in self.order)
