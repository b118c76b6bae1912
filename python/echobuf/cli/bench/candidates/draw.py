"""echobuf as a candidate: batches drawn from a window that is full."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf.cli.bench.candidates.workload import check_batch, check_uses, make_records

GUARANTEES = (
    ("exact use", "yes"),
    ("shuffled", "each pass over the window a fresh permutation"),
    ("duplicates in a batch", "none in steady state"),
)


class Draw:
    """`next_batch()` or, with `"out": true`, `next_batch(out=)`; a pass at a time."""

    packages = ("echobuf", "numpy", "optree")
    guarantees = (
        *GUARANTEES,
        ("batch", "copied; the caller's for good (out=: into the same arrays)"),
        ("timed", "the draws, with the order of the pass; filling is not"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.records = make_records(settings)
        self.batches = settings["batches"]
        if self.batches > settings["records"] // settings["batch"]:
            raise ValueError(f"{self.batches} batches are more than one pass")
        self.out = None
        if settings.get("out"):
            self.out = {
                name: np.zeros((settings["batch"], *array.shape[1:]), array.dtype)
                for name, array in self.records.items()
            }
        self.buffer = EchoBuffer(
            {name: Field(a.shape[1:], a.dtype) for name, a in self.records.items()},
            batch_size=settings["batch"],
            window=settings["records"],
            factor=1,
        )

    def warm_up(self) -> None:
        self.begin()
        indices = []
        for _ in range(self.batches):
            batch = self.buffer.next_batch(self.out)
            indices.append(check_batch(self.records, batch, self.settings))
        missing = self.settings["records"] - self.batches * self.settings["batch"]
        check_uses(indices, self.settings["records"], 1, allowed_missing=missing)

    def begin(self) -> None:
        self.buffer.reset()
        self.buffer.put_batch(self.records)

    def run(self) -> int:
        next_batch, out = self.buffer.next_batch, self.out
        if out is None:
            for _ in range(self.batches):
                next_batch()
        else:
            for _ in range(self.batches):
                next_batch(out)
        return int(self.batches)
