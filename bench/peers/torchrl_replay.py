"""TorchRL: `ReplayBuffer` over contiguous tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from echobuf.cli.bench.echoing import Echoing
from echobuf.cli.bench.records import Records
from echobuf.cli.bench.sampling import Sampling
from peers.replay import REPLAY

BATCH = ("batch", "copied; the caller's")
WITHOUT = (
    ("exact use", "once a pass"),
    ("shuffled", "uniformly, over the window"),
    ("duplicates in a batch", "none"),
    BATCH,
    ("timed", "the copy and the order"),
)
CONSUMING = (
    ("exact use", "yes"),
    ("shuffled", "uniform draws from what is left"),
    ("duplicates in a batch", "none"),
    BATCH,
    ("timed", "copies in and out, the order and the counts"),
)


def to_tensordict(records: Records) -> Any:
    """Return the records as a TensorDict, without a copy."""
    import torch
    from tensordict import TensorDict

    tensors = {name: torch.from_numpy(array) for name, array in records.items()}
    return TensorDict(tensors, batch_size=[len(next(iter(records.values())))])


class _Torchrl:
    """Methods of both questions on a buffer, which they make differently."""

    packages = ("torchrl", "tensordict", "torch")

    def add(self, records: Records) -> None:
        self.buffer.extend(to_tensordict(records))

    def sample(self) -> Any:
        return self.buffer.sample()

    def to_records(self, batch: Any) -> Records:
        return {name: batch[name].numpy() for name in self.settings["fields"]}


class Sample(_Torchrl, Sampling):
    """Sampling without replacement, or with it: `"replacement": true`."""

    guarantees = WITHOUT

    def open(self, settings: dict[str, Any], capacity: int) -> None:
        from torchrl.data import LazyTensorStorage, ReplayBuffer
        from torchrl.data.replay_buffers.samplers import (
            RandomSampler,
            SamplerWithoutReplacement,
        )

        random = settings.get("replacement")
        self.buffer = ReplayBuffer(
            storage=LazyTensorStorage(capacity),
            sampler=RandomSampler() if random else SamplerWithoutReplacement(),
            batch_size=settings["batch"],
        )
        if random:
            self.guarantees = (*REPLAY, BATCH, WITHOUT[-1])


class Echo(_Torchrl, Echoing):
    """`consume_after_n_samples=e`: the window is kept full while upstream lasts."""

    guarantees = CONSUMING

    def prepare(self) -> None:
        from torchrl.data import LazyTensorStorage, ReplayBuffer

        self.buffer = ReplayBuffer(
            storage=LazyTensorStorage(self.window),
            batch_size=self.batch,
            consume_after_n_samples=self.factor,
        )

    def batches(self) -> Iterator[Any]:
        upstream = self.fresh_batches()
        more = True
        while True:
            while more and len(self.buffer) <= self.window - self.batch:
                fresh = next(upstream, None)
                more = fresh is not None
                if more:
                    self.add({"image": fresh})
            if not len(self.buffer):
                return
            yield self.sample()["image"]
