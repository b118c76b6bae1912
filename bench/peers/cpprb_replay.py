"""cpprb: a replay buffer in Cython."""

from __future__ import annotations

from typing import Any

from echobuf.cli.bench.records import Records
from echobuf.cli.bench.sampling import Sampling
from peers.replay import REPLAY, ReplayEchoing

GUARANTEES = (
    *REPLAY,
    ("batch", "copied; the caller's"),
    ("timed", "the copy and the random indices"),
)


class Cpprb:
    """`cpprb.ReplayBuffer` with the dtypes of the records."""

    packages = ("cpprb", "numpy")
    guarantees = GUARANTEES

    def open(self, settings: dict[str, Any], capacity: int) -> None:
        from cpprb import ReplayBuffer

        fields = {
            name: {"shape": tuple(shape) or 1, "dtype": dtype}
            for name, (shape, dtype) in settings["fields"].items()
        }
        self.buffer = ReplayBuffer(capacity, fields)
        self.size = settings["batch"]

    def add(self, records: Records) -> None:
        self.buffer.add(**records)

    def sample(self) -> Any:
        return self.buffer.sample(self.size)


class Sample(Cpprb, Sampling):
    """Samples of records that stay."""


class Echo(Cpprb, ReplayEchoing):
    """Echoing by sampling."""
