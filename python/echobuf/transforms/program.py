"""The stages of a chain with the images that they read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from echobuf import _core
from echobuf.transforms.lowering import Draft, Image

RECORD = LEAF = -1  # in place of the number of a buffer


@dataclass(frozen=True)
class Gate:
    """A condition for a stage, as in `echobuf/transform/gates.hpp`.

    Attributes:
        low: the least number of the uniform that opens it.
        high: the first above.
        order: how many operations are put in order; 0: the uniform decides.
        position: in that order.
        alternative: the operation that must stand there.
        number: of the choosing operation in random draws.
    """

    low: float = 0.0
    high: float = 1.0
    order: int = 0
    position: int = 0
    alternative: int = 0
    number: int = 0

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
    """A stage that is complete.

    Attributes:
        draft: its steps, and the image that it reads.
        target: the image that it writes.
        buffer: where it writes; `LEAF` for the leaf of the batch. Each image between
            stages has a number of its own.
        gates: under which conditions it is carried out.
    """

    draft: Draft
    target: Image
    buffer: int
    gates: tuple[Gate, ...]


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
