"""Time of the host for a put on a device, beside a bare copy of the same bytes.

Batches of images from 256 MiB of them are put into the staging area of a device whose
driver does nothing, 64 MiB, or copied by NumPy into as many bytes: one put, one copy,
in turns, after a window of 512 MiB has been put. It needs a C++ compiler, and no GPU.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import echobuf
from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from echobuf.cuda.device import set_opener
from null_device import NullDevice, built

HERE = Path(__file__).parent
BATCHES = (  # bytes of an image, images of a batch
    (12_288, 512),
    (150_528, 64),
    (1_048_576, 8),
)
SOURCE, WINDOW, STAGING = 256 * 2**20, 512 * 2**20, 64 * 2**20  # bytes
PUTS = 200


def rates(library: Path, size: int, batch_size: int) -> tuple[list[float], list[float]]:
    """Return the bytes a second of each put, and of each copy."""
    window = WINDOW // size // batch_size * batch_size
    spec = {"image": echobuf.Field((size,), np.uint8)}
    chance = np.random.default_rng(0)
    batches = [
        chance.integers(0, 256, (batch_size, size), np.uint8)
        for _ in range(SOURCE // size // batch_size)
    ]
    slots = STAGING // size // batch_size * batch_size
    ring = np.zeros((slots, size), np.uint8)
    puts, copies = [], []
    set_opener(lambda ordinal: NullDevice(library, 0))
    try:
        with echobuf.EchoBuffer(
            spec, batch_size=batch_size, window=window, factor=1, device="cuda"
        ) as buffer:
            for i in range(window // batch_size + PUTS):
                batch = batches[i % len(batches)]
                start = time.perf_counter()
                buffer.put_batch({"image": batch}, timeout=60)
                put = time.perf_counter()
                at = i * batch_size % slots
                ring[at : at + batch_size] = batch
                copied = time.perf_counter()
                if i * batch_size >= window:  # all of both was written before
                    puts.append(batch.nbytes / (put - start))
                    copies.append(batch.nbytes / (copied - put))
                if (i + 1) * batch_size >= window:
                    buffer.next_batch(timeout=60)
    finally:
        set_opener(None)
    return puts, copies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    taken_in = environment()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = built(Path(folder))
        for size, batch_size in BATCHES:
            puts, copies = rates(library, size, batch_size)
            rows.append(
                {
                    "bytes": size,
                    "batch_size": batch_size,
                    "put_bytes_s": statistics.median(puts),
                    "copy_bytes_s": statistics.median(copies),
                }
            )
    for row in rows:
        put, copy = row["put_bytes_s"] / 1e9, row["copy_bytes_s"] / 1e9
        print(
            f"{row['batch_size']} images of {row['bytes']:,} bytes: {put:.1f} GB/s, "
            f"NumPy's copy {copy:.1f} GB/s"
        )
    write_figures("put_host_time", options.out, {"results": rows}, taken_in=taken_in)


if __name__ == "__main__":
    main()
