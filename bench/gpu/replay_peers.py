"""Replay buffers that keep their records on the device: draws a second, from Python.

TorchRL with a CUDA storage and sampler, without replacement and with it, and flashbax
on JAX arrays. Batches of 256 records of 136 bytes in two fields, 4 KB, 150,528 bytes.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ask import Candidate, Question, Settings
from echobuf.cli.bench.records import check_batch
from place import Place
from script import main
from window import Draw, records_of


class _Store(ABC):
    def __init__(self, place: Place, settings: Settings) -> None:
        self.place, self.settings = place, settings
        self.records = records_of(place, settings)
        self.batches = settings["batches"]
        self.open()
        step = settings["add"]
        for start in range(0, settings["records"], step):
            self.add({n: a[start : start + step] for n, a in self.records.items()})

    @abstractmethod
    def open(self) -> None:
        """Import the peer, and make a buffer on the device."""

    @abstractmethod
    def add(self, records: dict[str, Any]) -> None:
        """Add records, stacked on axis 0."""

    @abstractmethod
    def sample(self) -> Any:
        """Sample a batch, in the peer's form."""

    def to_host(self, leaf: Any) -> Any:
        """Return a leaf of a batch as an array; untimed."""
        return self.place.to_host(leaf)

    def check(self) -> None:
        batch = self.sample()
        served = {name: self.to_host(batch[name]) for name in self.records}
        check_batch(self.records, served, self.settings)

    def run(self) -> int:
        sample, batch = self.sample, None
        for _ in range(self.batches):
            batch = sample()
        self.wait(batch)
        return int(self.batches)

    def wait(self, batch: Any) -> None:
        """Wait until the device has drawn the batch."""
        self.place.sync()


class Torchrl(_Store):
    """`ReplayBuffer` over a `LazyTensorStorage` on the device."""

    def open(self) -> None:
        torch = self.place.torch
        from torchrl.data import LazyTensorStorage, ReplayBuffer
        from torchrl.data.replay_buffers.samplers import (
            RandomSampler,
            SamplerWithoutReplacement,
        )

        random = self.settings.get("replacement")
        self.buffer = ReplayBuffer(
            storage=LazyTensorStorage(self.settings["records"], device="cuda"),
            sampler=RandomSampler() if random else SamplerWithoutReplacement(),
            batch_size=self.settings["batch"],
        )
        self.torch = torch

    def add(self, records: dict[str, Any]) -> None:
        from tensordict import TensorDict

        tensors = {n: self.torch.from_numpy(a).cuda() for n, a in records.items()}
        size = len(next(iter(records.values())))
        self.buffer.extend(TensorDict(tensors, batch_size=[size], device="cuda"))

    def sample(self) -> Any:
        return self.buffer.sample()


class Flashbax(_Store):
    """`make_item_buffer`: jitted functions, the state donated to `add`."""

    def open(self) -> None:
        import flashbax
        import jax

        jax.config.update("jax_enable_x64", True)
        if jax.default_backend() != "gpu":
            raise ImportError(f"jax runs on {jax.default_backend()} here")
        self.jax = jax
        buffer = flashbax.make_item_buffer(
            max_length=self.settings["records"],
            min_length=self.settings["batch"],
            sample_batch_size=self.settings["batch"],
            add_batches=True,
        )
        self.state = buffer.init({n: np.asarray(a[0]) for n, a in self.records.items()})
        self.key = jax.random.PRNGKey(0)
        self.jit_add = jax.jit(buffer.add, donate_argnums=0)

        def draw(state: Any, key: Any) -> Any:
            key, now = jax.random.split(key)
            return key, buffer.sample(state, now).experience

        self.jit_sample = jax.jit(draw)

    def add(self, records: dict[str, Any]) -> None:
        self.state = self.jit_add(self.state, records)

    def sample(self) -> Any:
        self.key, batch = self.jit_sample(self.state, self.key)
        return batch

    def to_host(self, leaf: Any) -> Any:
        return np.asarray(leaf)

    def wait(self, batch: Any) -> None:
        self.jax.block_until_ready(batch)


def question(name: str, aim: str, settings: Settings, tiny: Settings) -> Question:
    """Ask for batches of one record size."""
    return Question(
        name=f"gpu_replay_{name}",
        aim=aim,
        unit="batch",
        reference="TorchRL, without replacement",
        candidates=(
            Candidate("TorchRL, without replacement", Torchrl, peer=True),
            Candidate("TorchRL, random", Torchrl, {"replacement": True}, peer=True),
            Candidate("flashbax", Flashbax, peer=True),
            Candidate("echobuf", Draw),
            Candidate("echobuf out=", Draw, {"out": True}),
        ),
        clock="wall",
        settings={"batch": 256, "batches": 24, "add": 2048, **settings},
        tiny={"records": 320, "batch": 16, "batches": 8, **tiny},
        rounds=11,
        limit_s=8,
    )


QUESTIONS = (
    question(
        "136_bytes",
        "5 times theirs",
        {
            "fields": {"x": [[32], "float32"], "y": [[], "int64"]},
            "key": "y",
            "records": 131_072,
            "batches": 200,
        },
        {},
    ),
    question(
        "4_kb",
        "5 times theirs",
        {
            "fields": {"page": [[4096], "uint8"]},
            "key": "page",
            "records": 131_072,
            "batches": 200,
        },
        {"fields": {"page": [[64], "uint8"]}},
    ),
    question(
        "150_kb",
        "never slower",
        {
            "fields": {"image": [[224, 224, 3], "uint8"]},
            "key": "image",
            "records": 8192,
        },
        {"fields": {"image": [[4, 4, 3], "uint8"]}},
    ),
)

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
