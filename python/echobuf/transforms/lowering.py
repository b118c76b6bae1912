"""Stages of a chain, and the images between them, in the core's form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.transforms import dtypes

Extent = tuple[int, int, int]  # height, width, channels
CORES = {"none": 0, "resample": 1, "warp": 2, "graded_warp": 2, "onehot": 3}
CORES |= {"blur": 4, "sharpen": 5, "perspective": 6}
WHOLE = {"no": 0, "half up": 1, "half even": 2}


@dataclass(frozen=True)
class Image:
    """An image in memory, or the frames of a clip."""

    extent: Extent  # height, width and channels, of a frame
    dtype: np.dtype[Any]  # of its numbers
    planar: bool  # whether channels come first
    frames: int = 1  # images that lie one behind another

    def as_core(self) -> tuple[Any, ...]:
        """Return the image in the core's form."""
        height, width, channels = self.extent
        strides = (width * channels, channels, 1)
        if self.planar:
            strides = (width, 1, height * width)
        return self.extent, dtypes.code(self.dtype), self.dtype.itemsize, strides


@dataclass
class Step:
    """One native operation: kind, number in random draws, settings by name."""

    kind: str
    number: int
    settings: dict[str, Any]

    def as_core(self) -> tuple[str, int, dict[str, Any]]:
        """Return the step in the core's form."""
        return self.kind, self.number, self.settings


@dataclass
class Draft:
    """A stage in the making, as in `echobuf/transform/stage.hpp`."""

    source: Image  # the image that it reads
    before: list[Step] = field(default_factory=list)  # maps before the core
    core: Step | None = None  # the step between the maps; None if there is none
    after: list[Step] = field(default_factory=list)  # maps after it
    changes: list[Step] = field(default_factory=list)  # steps that change numbers
    filled: bool = False  # whether one of the maps has a fill
    placed: bool = False  # whether one of the changes depends on the place of a number
    # Whether the first change needs one of the image that it changes
    statistic: bool = False
    mix: int | None = None  # which of the changes mixes, or None
    onehot: bool = False  # whether a number becomes a one-hot vector
    whole: str = "no"  # the rounding of integers after pixels were resampled
    buffer: int = -1  # where the source lies; -1: in the record

    @property
    def moves(self) -> bool:
        """True if the stage moves pixels."""
        return bool(self.before or self.after or self.core)

    def count(self) -> int:
        """Return the number of steps, the core included."""
        return len(self.before) + len(self.after) + len(self.changes) + 1

    @property
    def idle(self) -> bool:
        """True if the stage would leave pixels and numbers as they are."""
        return not (self.moves or self.changes or self.onehot)

    def stage(self, target: Image, **where: Any) -> _core.Stage:
        """Return the stage that writes `target`.

        Args:
            target: the image.
            where: the buffers that it reads and writes, and its gates.
        """
        core = "none" if self.core is None else self.core.kind
        if self.onehot:
            core = "onehot"
        cores = [] if self.core is None else [self.core]
        steps = [*self.before, *cores, *self.after, *self.changes]
        maps = len(steps) - len(self.changes)
        fill = next((i for i, step in enumerate(steps) if _fills(step)), -1)
        masks = any(step.kind == "mask" for step in self.changes)
        same = target.dtype == self.source.dtype and core == "none"
        return _core.Stage(
            source=self.source.as_core(),
            target=target.as_core(),
            raw=same and (masks or not self.changes),
            core=CORES[core],
            whole=WHOLE[self.whole],
            before=len(self.before),
            after=maps,
            fill=fill,
            statistic=maps if self.statistic else -1,
            mix=-1 if self.mix is None else maps + self.mix,
            frames=self.source.frames,
            ops=[step.as_core() for step in steps],
            **where,
        )


def _fills(step: Step) -> bool:
    return (
        step.kind == "crop" and step.settings["border"] == 0 and step.settings["fills"]
    )


# ---- complete stages

RECORD = LEAF = -1  # in place of the number of a buffer


@dataclass(frozen=True)
class Gate:
    """A condition for a stage, as in `echobuf/transform/gates.hpp`."""

    low: float = 0.0  # the least number of the uniform that opens it
    high: float = 1.0  # the first above
    order: int = 0  # how many operations are put in order; 0: the uniform decides
    position: int = 0  # in that order
    alternative: int = 0  # the operation that must stand there
    number: int = 0  # of the choosing operation in random draws

    @property
    def always_opens(self) -> bool:
        """True if nothing is left to chance, and the stage is carried out."""
        return self.order <= 1 and self.low <= 0.0 and self.high >= 1.0

    @property
    def never_opens(self) -> bool:
        """True if nothing is left to chance, and the stage is not carried out."""
        return self.low >= self.high

    def as_core(self) -> tuple[int, int, int, int, float, float]:
        """Return the gate in the core's form."""
        order = self.order, self.position, self.alternative
        return self.number, *order, self.low, self.high


@dataclass
class Written:
    """A stage that is complete."""

    draft: Draft  # its steps, and the image that it reads
    target: Image  # the image that it writes
    # Where it writes; `LEAF` for the leaf of the batch. Each image between stages has a
    # number of its own.
    buffer: int
    gates: tuple[Gate, ...]  # under which conditions it is carried out


def lowered(stages: Sequence[Written]) -> list[_core.Stage]:
    """Return the stages in the core's form; images share memory one after another."""
    memory = _memory(stages)
    doubled = _seen_by_mixes(stages)
    return [
        stage.draft.stage(
            stage.target,
            from_buffer=memory[stage.draft.buffer],
            to_buffer=memory[stage.buffer],
            doubled=stage.buffer in doubled,
            gates=[gate.as_core() for gate in stage.gates],
        )
        for stage in stages
    ]


def _memory(stages: Sequence[Written]) -> dict[int, int]:
    """Return the number of the memory that each image lies in."""
    last_read = {stage.draft.buffer: i for i, stage in enumerate(stages)}
    # The host takes each frame of a clip through all stages that have frames: images
    # that come whole from a stage before them must stay.
    whole = {stage.buffer for stage in stages if stage.draft.source.frames == 1}
    for stage in stages:
        if stage.draft.source.frames > 1 and stage.draft.buffer in whole:
            last_read[stage.draft.buffer] = len(stages)
    memory = {LEAF: LEAF}
    free_from: list[int] = []  # the last stage that reads it
    for i, stage in enumerate(stages):
        if stage.buffer in memory:
            continue
        free = (number for number, last in enumerate(free_from) if last < i)
        number = next(free, len(free_from))
        free_from[number : number + 1] = [last_read[stage.buffer]]
        memory[stage.buffer] = number
    return memory


def _seen_by_mixes(stages: Sequence[Written]) -> set[int]:
    """Return the images that are made of the partner, too."""
    seen: set[int] = set()
    for stage in reversed(stages):
        if stage.draft.mix is not None or stage.buffer in seen:
            seen.add(stage.draft.buffer)
    return seen - {RECORD}
