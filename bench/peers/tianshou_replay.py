"""tianshou: `ReplayBuffer`, reading only the fields that hold the records."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf.cli.bench.records import Records
from echobuf.cli.bench.sampling import Sampling
from peers.replay import REPLAY, ReplayEchoing

GUARANTEES = (
    *REPLAY,
    ("batch", "copied; the caller's"),
    ("timed", "the copy and the random indices"),
)
FIELDS = ("obs", "act")  # the first field of a record, and the second


class Tianshou:
    """Filled as a whole, since `add` takes one transition at a time."""

    packages = ("tianshou", "numpy")
    guarantees = GUARANTEES

    def open(self, settings: dict[str, Any], capacity: int) -> None:
        from tianshou.data import Batch, ReplayBuffer

        self.make_batch = Batch
        self.buffer = ReplayBuffer(capacity, ignore_obs_next=True)
        self.names = dict(zip(settings["fields"], FIELDS, strict=False))
        self.size = settings["batch"]

    def add(self, records: Records) -> None:
        arrays = {self.names[name]: array for name, array in records.items()}
        arrays.setdefault("act", np.zeros(len(arrays["obs"]), np.int8))
        no = np.zeros(1, bool)
        for index in range(len(arrays["obs"])):
            self.buffer.add(
                self.make_batch(
                    obs=arrays["obs"][index],
                    act=arrays["act"][index],
                    rew=0.0,
                    terminated=no[0],
                    truncated=no[0],
                )
            )

    def sample(self) -> Any:
        index = self.buffer.sample_indices(self.size)
        get = self.buffer.get
        return {name: get(index, field) for name, field in self.names.items()}


class Sample(Tianshou, Sampling):
    """Samples of records that stay."""


class Echo(Tianshou, ReplayEchoing):
    """Echoing by sampling."""
