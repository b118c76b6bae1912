"""Random buffers for the comparison of devices."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np

import echobuf
from helpers import largest_batch
from schedule_reference import ratio

_DTYPES = ("uint8", "int16", "float32", "float64", "complex128", "bool", "int64")
_FACTORS = (1, 2, 3, 5, 1.5, 2.5, 1.01, 3.3)
# Sizes at which something changes: below, at and above 16-byte words and pages.
CORNERS = (1, 2, 3, 15, 16, 17, 33, 136, 4095, 4096, 4097)
LARGE = (150_528, 1 << 20, (1 << 20) + 1, 16 << 20)


@dataclass(frozen=True)
class Case:
    """The fields of a record, a buffer's arguments, and how much is put."""

    name: str
    fields: tuple[tuple[tuple[int, ...], str], ...]
    kwargs: dict[str, Any]
    count: int
    chunk: int
    seed: int

    @property
    def spec(self) -> list[echobuf.Field]:
        return [echobuf.Field(shape, np.dtype(dtype)) for shape, dtype in self.fields]

    def make(self, device: str) -> echobuf.EchoBuffer:
        return echobuf.EchoBuffer(self.spec, device=device, **self.kwargs)

    def records(self, epoch: int) -> list[np.ndarray]:
        """All fresh examples of an epoch: noise, stacked on axis 0."""
        rng = np.random.default_rng((self.seed, epoch))
        return [self._noise(rng, *field) for field in self.fields]

    def _noise(self, rng: Any, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        noise = rng.integers(0, 256, (self.count, size), np.uint8)
        if dtype == "bool":
            noise &= 1
        return noise.view(dtype).reshape(self.count, *shape)


def random_cases(number: int, most_bytes: int, seed: int) -> list[Case]:
    """Cases whose records, put in all, stay below `most_bytes`."""
    choose = random.Random(seed)
    cases = []
    for index in range(number):
        if index < len(CORNERS):
            size = CORNERS[index]
        else:
            size = round(2 ** choose.uniform(0, math.log2(most_bytes / 8)))
        cases.append(_case(choose, index, size, most_bytes))
    return cases


def large_cases() -> list[Case]:
    """A case for each large record size."""
    choose = random.Random(0)
    return [_case(choose, index, size, 8 * size) for index, size in enumerate(LARGE)]


def _case(choose: random.Random, index: int, size: int, most_bytes: int) -> Case:
    factor = choose.choice(_FACTORS)
    ragged = choose.random() < 0.2
    rows = choose.choice((1, 2, 5)) if ragged else 1
    most = max(math.ceil(factor), min(300, most_bytes // (3 * size * rows)))
    window = choose.randint(math.ceil(factor), most)
    kwargs: dict[str, Any] = {
        "window": window,
        "factor": factor,
        "seed": choose.randrange(2**63),
        "prefetch": choose.randint(0, 2),
    }
    fields = _fields(choose, size)
    if ragged:
        kwargs["unit"] = "batch"
        fields = [((rows, *shape), dtype) for shape, dtype in fields]
    else:
        largest = largest_batch(window, ratio(factor))
        kwargs["batch_size"] = choose.randint(1, largest)
        kwargs["drop_last"] = choose.random() < 0.5
    count = choose.randint(0, 2 * window + 2)
    name = f"{index}: {size} bytes, {kwargs}"
    chunk = choose.randint(1, max(1, window))
    return Case(name, tuple(fields), kwargs, count, chunk, choose.randrange(2**31))


def _fields(choose: random.Random, size: int) -> list[tuple[tuple[int, ...], str]]:
    """Fields of `size` bytes in all, in a random order."""
    fields: list[tuple[tuple[int, ...], str]] = []
    while size > 1 and len(fields) < 4 and choose.random() < 0.6:
        dtype = choose.choice(_DTYPES)
        items = choose.randint(1, 6)
        taken = items * np.dtype(dtype).itemsize
        if taken < size:
            shape = choose.choice(
                ((items,), (items, 1), () if items == 1 else (items,))
            )
            fields.append((shape, dtype))
            size -= taken
    fields.append(((size,), "uint8"))
    choose.shuffle(fields)
    return fields
