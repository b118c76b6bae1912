"""Text: a byte-level language model of the help texts that come with Python.

`pydoc_data.topics`, which every installation carries, cut into records of 48 bytes;
every tenth topic is held out. The augmentation is the window of 25 bytes at a random
place of the record, of which 24 are predicted from those before them by a network that
looks at the last 8.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from echobuf.transforms import RandomWindow
from workloads.workload import Leaves, Workload

__all__ = ["Text"]

_RECORD = 48
_LENGTH = 25
_HELD_OUT = 256  # windows
_SPLIT_SEED = 1234
_SEEN, _INNER, _HIDDEN = 8, 16, 64
_SYMBOLS = 128  # the texts are ASCII; what is not counts as the last of it


class Text(Workload):
    """See the top of this file."""

    name = "text"
    measure = "bits per byte of held-out text"
    target = 3.05
    rates = range(-11, -6)  # 0.0063 ... 0.04
    most_fresh = 60_000

    def __init__(self) -> None:
        texts = [topics[name].encode() for name in sorted(topics)]
        held_out = [text for i, text in enumerate(texts) if i % 10 == 0]
        trained = [text for i, text in enumerate(texts) if i % 10]
        self._bytes = sum(map(len, texts))
        self._digest = hashlib.sha256(b"".join(texts)).hexdigest()
        self._records = (_cut(trained),)
        chance = np.random.default_rng(_SPLIT_SEED)
        some = chance.permutation(_cut(held_out))[:_HELD_OUT]
        (self._held_out,) = self.augmented((some,), _SPLIT_SEED)

    @property
    def records(self) -> Leaves:
        """Return text as `uint8[n, 48]`."""
        return self._records

    @property
    def transform(self) -> Mapping[int, Any]:
        """Return a window of the record."""
        return {0: [RandomWindow(_LENGTH)]}

    @property
    def about(self) -> dict[str, Any]:
        """Return the text, which differs between versions of Python."""
        return {
            "records": len(self._records[0]),
            "held_out": len(self._held_out),
            "bytes": self._bytes,
            "sha256": self._digest,
        }

    def learner(self, seed: int, rate: float, device: str, width: int) -> _Writer:
        """Return a network trained by Adam."""
        return _Writer(self._held_out, seed, rate, device, width)


def _cut(texts: list[bytes]) -> NDArray[np.uint8]:
    joined = np.frombuffer(b"".join(texts), np.uint8)
    joined = np.minimum(joined, _SYMBOLS - 1)
    count = len(joined) // _RECORD
    return joined[: count * _RECORD].reshape(count, _RECORD)


class _Writer:
    def __init__(
        self, held_out: NDArray[Any], seed: int, rate: float, device: str, width: int
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._network = _Network(width).to(device)
        self._optimiser = torch.optim.Adam(self._network.parameters(), lr=rate)
        self._held_out = torch.from_numpy(held_out).to(device)

    def step(self, windows: Tensor) -> None:
        self._optimiser.zero_grad()
        self._loss(windows).backward()
        self._optimiser.step()

    @torch.inference_mode()
    def error(self) -> float:
        return float(self._loss(self._held_out)) / math.log(2.0)

    def _loss(self, windows: Tensor) -> Tensor:
        symbols = windows.long()
        scores = self._network(symbols[:, :-1])
        return nn.functional.cross_entropy(
            scores.reshape(-1, _SYMBOLS), symbols[:, 1:].reshape(-1)
        )


class _Network(nn.Module):
    """The bytes last seen, side by side, through a hidden layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner, hidden = width * _INNER, width * _HIDDEN
        self._embedding = nn.Embedding(_SYMBOLS, inner)
        self._layers = nn.Sequential(
            *(nn.Linear(_SEEN * inner, hidden), nn.ReLU()),
            nn.Linear(hidden, _SYMBOLS),
        )

    def forward(self, symbols: Tensor) -> Tensor:
        before = nn.functional.pad(symbols, (_SEEN - 1, 0))
        seen = self._embedding(before.unfold(1, _SEEN, 1))
        return self._layers(seen.flatten(2))
