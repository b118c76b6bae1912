"""Chains drawn on the CPU and on the simulated driver, to be compared bit for bit."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import echobuf
from augmentations_for_tests import rows_and_images
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker


def make(device: str, spec: Any, transform: Any, **more: Any) -> echobuf.EchoBuffer:
    options = {"batch_size": 4, "window": 12, "factor": 2, "seed": 7} | more
    return echobuf.EchoBuffer(spec, transform=transform, device=device, **options)


def bits(batch: dict[str, Any]) -> dict[str, list[Any]]:
    """Dtypes, shapes and bytes of all arrays of a batch. Of a NaN its bits, too."""
    return {
        name: [
            (str(array.dtype), array.shape, array.tobytes())
            for array in map(np.array, leaf if isinstance(leaf, tuple) else (leaf,))
        ]
        for name, leaf in batch.items()
    }


def batches(
    device: str, spec: Any, transform: Any, count: int, **more: Any
) -> list[Any]:
    """Of two epochs; the second begins before the first is drawn to its end."""
    stacked = rows_and_images(spec, count, 3)
    drawn = []
    with make(device, spec, transform, **more) as buffer:
        for ends, most in (False, min(3, count)), (True, 10**9):

            def feed(closes: bool) -> None:
                with contextlib.suppress(echobuf.ClosedError):
                    buffer.put_batch(stacked, timeout=WAIT_S)
                    if closes:  # after a reset it would be the next epoch's end
                        buffer.close()

            feeder = Worker(feed, ends)
            for _, batch in zip(range(most), buffer, strict=False):
                drawn.append(bits(batch))
            if not ends:
                buffer.reset()
            feeder.result()
    return drawn


def expect_same(
    spec: Any, transform: Any, kernels: str, count: int = 0, **more: Any
) -> None:
    count = count or (17 if kernels == "host" else 13)  # PTX is slow
    on_host = batches("cpu", spec, transform, count, **more)
    assert len(on_host) > 3
    with simulated_cuda(2, kernels):
        assert batches("cuda", spec, transform, count, **more) == on_host
