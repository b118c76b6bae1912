"""Smoke runs: seconds on the device, compared with the CPU bit for bit.

Each is a process, so that an illegal access in one ends the device for no other.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from has_gpu import NO_GPU
from place import Place, open_place

NOT_THERE = 5  # exit code: nothing to run, as pytest's
COUNT = 480
SPEC = {"image": Field((12, 12, 3), np.uint8), "label": Field((), np.int32)}
SETTINGS: dict[str, Any] = {"batch_size": 16, "window": 96, "factor": 3, "seed": 9}
_TIMEOUT_S = 20.0

Batch = dict[str, Any]


def main(description: str | None, smoke: Callable[[Place], str]) -> int:
    """Run it and print what it returns; 0, the exit code, unless it raises."""
    parser = argparse.ArgumentParser(
        description=description,
        epilog=f"Exits with {NO_GPU} where there is no GPU, and with {NOT_THERE} where "
        "a package that it needs is not there.",
    )
    parser.add_argument(
        "--simulated", action="store_true", help="run on the simulated driver"
    )
    options = parser.parse_args()
    with open_place(simulated=options.simulated) as place:
        print(smoke(place))
    return 0


def examples() -> Batch:
    """Return the records of a smoke run, stacked."""
    shape = (COUNT, *SPEC["image"].shape)
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    return {"image": images, "label": np.arange(COUNT, dtype=np.int32)}


def upstream(size: int = 32) -> list[Batch]:
    """Return the records in batches, for a loader."""
    whole = examples()
    return [
        {name: leaf[start : start + size] for name, leaf in whole.items()}
        for start in range(0, COUNT, size)
    ]


def fed(buffer: EchoBuffer) -> threading.Thread:
    """Put the records from a thread, which then closes the buffer."""

    def put() -> None:
        try:
            buffer.put_batch(examples(), timeout=_TIMEOUT_S)
        finally:  # or a draw would wait until its time-out
            buffer.close()

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    return thread


def drawn(place: Place, device: str, transform: Any = None) -> list[Batch]:
    """Return copies on the host of all batches that a buffer serves."""
    settings = {**SETTINGS, "device": device, "transform": transform}
    with EchoBuffer(SPEC, **settings) as buffer:
        producer = fed(buffer)
        batches = on_host(place, device, buffer)
        producer.join()
    return batches


def on_host(place: Place, device: str, batches: Iterable[Batch]) -> list[Batch]:
    """Return copies of the batches on the host, each made before the next draw."""
    copy = np.array if device == "cpu" else place.to_host
    return [{name: copy(leaf) for name, leaf in batch.items()} for batch in batches]


def same(got: list[Batch], expected: list[Batch]) -> str:
    """Return how many batches are those of the CPU.

    Raises:
        AssertionError: they differ, with the first that does.
    """
    for turn, (one, other) in enumerate(zip(got, expected, strict=False)):
        for name, leaf in other.items():
            if one[name].dtype != leaf.dtype or not np.array_equal(one[name], leaf):
                raise AssertionError(
                    f"batch {turn}, {name!r}: the device serves\n{one[name]}\n"
                    f"and the CPU\n{leaf}"
                )
    if len(got) != len(expected):
        raise AssertionError(f"{len(got)} batches of {len(expected)} came")
    return f"{len(got)} batches as on the CPU"
