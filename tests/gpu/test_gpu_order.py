"""The order and the bytes of batches on a device are those on the CPU."""

from __future__ import annotations

import math
import random
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest

import echobuf
from gpu_records import SPEC, feed, ids_of
from helpers import WAIT_S, Worker

MB = 1 << 20
# Sizes at which something changes: below, at and above 16-byte words and pages.
CORNERS = (1, 2, 3, 15, 16, 17, 33, 136, 4095, 4096, 4097)
LARGE = (150_528, MB, MB + 1, 16 * MB)


def fields_of(choose: random.Random, size: int) -> list[echobuf.Field]:
    """Fields of `size` bytes in all, in a random order."""
    fields = []
    for dtype in choose.sample(["i2", "f4", "f8", "c16", "i8", "u1"], 3):
        taken = choose.randint(1, 6) * np.dtype(dtype).itemsize
        if taken < size:
            shape = (taken // np.dtype(dtype).itemsize,)
            fields.append(echobuf.Field(shape, np.dtype(dtype)))
            size -= taken
    fields.append(echobuf.Field((size,), np.uint8))
    choose.shuffle(fields)
    return fields


def put_all(buffer: echobuf.EchoBuffer, batches: list[Any], rows: int) -> None:
    """One producer; whole batches of `rows` where those are the unit."""
    for batch in batches:
        if rows:
            buffer.put([leaf[:rows] for leaf in batch], timeout=WAIT_S)
        else:
            buffer.put_batch(batch, timeout=WAIT_S)
    buffer.close()


def noise(seed: int, fields: list[echobuf.Field], count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(
            0, 256, (count, math.prod(field.shape) * field.dtype.itemsize), np.uint8
        )
        .view(field.dtype)
        .reshape(count, *field.shape)
        for field in fields
    ]


@pytest.mark.parametrize("whole", [False, True])
def test_buffers_serve_the_same_bytes(place: Any, whole: bool) -> None:
    choose = random.Random(7)
    most, longest = (20_000, 20) if place.simulated else (32 * MB, 300)
    sizes = [*CORNERS, *(round(2 ** choose.uniform(0, 12)) for _ in range(6))]
    for size in sizes if place.simulated else [*sizes, *LARGE]:
        fields = fields_of(choose, size)
        window = max(3, min(longest, most // (3 * size)))
        options: dict[str, Any] = {
            "window": window,
            "factor": choose.choice([1, 2, 3, 1.5, 2.5]),
            "seed": choose.randrange(2**63),
            "prefetch": choose.randint(0, 2),
        }
        rows, spec = 0, fields
        if whole:
            rows = choose.choice([1, 2, 5])
            spec = [echobuf.Field((rows, *f.shape), f.dtype) for f in fields]
            options["unit"] = "batch"
        else:
            options["batch_size"] = choose.randint(1, window // 3)
        parts = [
            noise(number, fields, max(rows, choose.randint(1, 9)))
            for number in range(window)
        ]
        with (
            echobuf.EchoBuffer(spec, **options) as here,
            echobuf.EchoBuffer(spec, device="cuda", **options) as there,
        ):
            for _ in range(2):
                producers = [
                    Worker(put_all, each, parts, rows) for each in (here, there)
                ]
                for want, got in zip_longest(here, there):
                    for one, other in zip(want, place.host(got), strict=True):
                        assert (one.dtype, one.shape) == (other.dtype, other.shape)
                        assert one.tobytes() == other.tobytes(), (size, options)
                for producer in producers:
                    producer.result()
                here.reset()
                there.reset()


def test_a_state_taken_on_the_cpu_goes_on_on_the_device(place: Any) -> None:
    kwargs = {"batch_size": 8, "window": 48, "factor": 3, "seed": 11}
    with echobuf.EchoBuffer(SPEC, **kwargs) as here:
        producer = Worker(feed, here, 200)
        for _ in range(30):
            here.next_batch(timeout=WAIT_S)
        state = here.state_dict()
        rest = [ids_of(batch) for batch in here]
        producer.result()
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as there:
        there.load_state_dict(state)
        producer = Worker(feed, there, 200, 64, state["fresh_offset"])
        assert [ids_of(place.host(batch)) for batch in there] == rest
        producer.result()
