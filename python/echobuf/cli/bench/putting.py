"""Puts of one example, over and over, into a buffer that has room for all of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from echobuf import EchoBuffer

_CALLS = 4096


class Arrays:
    """`put` of an array and a NumPy scalar."""

    packages: tuple[str, ...] = ("echobuf", "numpy", "optree")
    guarantees = (("timed", "the calls of `put` alone: nothing is drawn"),)

    def __init__(self, settings: dict[str, Any]) -> None:
        self.put_this = self.example()
        self.buffer = EchoBuffer(
            self.put_this, batch_size=1, window=2 * _CALLS, factor=1
        )

    def example(self) -> tuple[Any, Any]:
        """Return the example that is put."""
        return np.zeros(32, np.float32), np.int64(3)

    def warm_up(self) -> None:
        self.run()

    def begin(self) -> None:
        self.buffer.reset()

    def run(self) -> int:
        put, example = self.buffer.put, self.put_this
        for _ in itertools.repeat(None, _CALLS):
            put(example)
        return _CALLS


class Tensors(Arrays):
    """`put` of a tensor and a Python number, of the same bytes."""

    packages = (*Arrays.packages, "torch")

    def example(self) -> tuple[Any, Any]:
        import torch

        return torch.zeros(32), 3
