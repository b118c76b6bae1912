"""rlox: a replay buffer in Rust, of float32 transitions.

It stores an observation, an action, a reward, two flags and the next observation, all
float32. Records lie in the observation, byte by byte: a uint8 image as a quarter as
many float32; of the small records, the int64 as two float32 more. The next observation
is stored and copied too, and cannot be left out, nor can the order be without
replacement.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from echobuf.cli.bench.records import Records
from echobuf.cli.bench.sampling import Sampling
from peers.replay import REPLAY, ReplayEchoing

GUARANTEES = (
    *REPLAY,
    ("batch", "copied, with as many bytes of a next observation; the caller's"),
    ("timed", "the copies and the random indices"),
)


class Rlox:
    """`rlox.ReplayBuffer`, filled with `push_batch`."""

    packages = ("rlox", "numpy")
    guarantees = GUARANTEES

    def open(self, settings: dict[str, Any], capacity: int) -> None:
        from rlox import ReplayBuffer

        self.fields = settings["fields"]
        self.widths = {
            name: math.prod(shape) * np.dtype(dtype).itemsize // 4
            for name, (shape, dtype) in self.fields.items()
        }
        self.width = sum(self.widths.values())
        self.buffer = ReplayBuffer(capacity, self.width, 1)
        self.size = settings["batch"]
        self.seed = 0

    def add(self, records: Records) -> None:
        count = len(next(iter(records.values())))
        parts = [
            np.ascontiguousarray(array).reshape(count, -1).view(np.float32)
            for array in (a.reshape(count, -1) for a in records.values())
        ]
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        zeros, no = np.zeros(count, np.float32), np.zeros(count, np.uint8)
        self.buffer.push_batch(rows.ravel(), rows.ravel(), zeros, zeros, no, no)

    def sample(self) -> Any:
        self.seed += 1
        return self.buffer.sample(self.size, self.seed)

    def to_records(self, batch: Any) -> Records:
        rows = np.asarray(batch["obs"], np.float32).reshape(self.size, self.width)
        records, start = {}, 0
        for name, (shape, dtype) in self.fields.items():
            part = np.ascontiguousarray(rows[:, start : start + self.widths[name]])
            records[name] = part.view(dtype).reshape(self.size, *shape)
            start += self.widths[name]
        return records

    def to_images(self, batch: Any) -> Any:
        rows = batch["obs"].reshape(self.size, self.width)
        return rows.view(np.uint8).reshape(self.size, *self.fields["image"][0])


class Sample(Rlox, Sampling):
    """Samples of records that stay."""


class Echo(Rlox, ReplayEchoing):
    """Echoing by sampling."""
