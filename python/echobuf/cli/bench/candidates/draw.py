"""echobuf as a candidate: batches drawn from a window that is full."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf.cli.bench.candidates.workload import check_batch, check_uses, make_records

GUARANTEES = (
    ("exact use", "yes"),
    ("shuffled", "each pass over the window a fresh permutation"),
    ("duplicates in a batch", "none within a pass; a batch may span two"),
)
FACTOR = 8


class Draw:
    """`next_batch()` or, with `"out": true`, `next_batch(out=)`, from a full window.

    Replaying without end, as a replay buffer would, is not what a window does: the
    oldest eighth of it makes room for fresh records, outside the time, when all that
    can be drawn before has been drawn.
    """

    packages = ("echobuf", "numpy", "optree")
    guarantees = (
        *GUARANTEES,
        ("batch", "copied; the caller's for good (out=: into the same arrays)"),
        ("timed", "the draws, with the order of the passes; putting is not"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.records = make_records(settings)
        self.batches = settings["batches"]
        window = settings["records"]
        if self.batches > window // settings["batch"]:
            raise ValueError(f"{self.batches} batches are more than one pass")
        if window % FACTOR:
            raise ValueError(f"{window} records are not {FACTOR} equal segments")
        self.out = None
        if settings.get("out"):
            self.out = {
                name: np.zeros((settings["batch"], *array.shape[1:]), array.dtype)
                for name, array in self.records.items()
            }
        self.buffer = EchoBuffer(
            {name: Field(a.shape[1:], a.dtype) for name, a in self.records.items()},
            batch_size=settings["batch"],
            window=window,
            factor=FACTOR,
        )
        self.segment = window // FACTOR
        self.next_segment = 0
        self.sure = 0  # batches that can be drawn before more must be put

    def warm_up(self) -> None:
        """An epoch, checked; then the window is filled."""
        self.buffer.put_batch(self.records)
        self.buffer.close()
        settings = {**self.settings, "batch": None}
        indices = [check_batch(self.records, b, settings) for b in self.buffer]
        check_uses(indices, self.settings["records"], FACTOR)
        self.buffer.reset()
        for _ in range(FACTOR):
            self.put_segment()

    def put_segment(self) -> None:
        """Fresh records for one more pass; the passes before are drawn to their end."""
        while self.buffer.ready():
            self.buffer.next_batch(self.out)
        start = self.next_segment * self.segment
        self.next_segment = (self.next_segment + 1) % FACTOR
        stop = start + self.segment
        self.buffer.put_batch({n: a[start:stop] for n, a in self.records.items()})
        self.sure = FACTOR * self.segment // self.settings["batch"]

    def begin(self) -> None:
        if self.sure < self.batches:
            self.put_segment()
        self.sure -= self.batches

    def run(self) -> int:
        next_batch, out = self.buffer.next_batch, self.out
        if out is None:
            for _ in range(self.batches):
                next_batch()
        else:
            for _ in range(self.batches):
                next_batch(out)
        return int(self.batches)
