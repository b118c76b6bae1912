"""Large records: a batch of 256 images 224x224x3 uint8, drawn from 8,192.

The yardstick is a plain copy of the same bytes by one thread, into memory that is warm:
`numpy.copyto` of 256 consecutive images.
"""

from __future__ import annotations

import numpy as np

from echobuf import EchoBuffer, Field
from harness import interleave, parser, summarise, timed, write

SHAPE = (224, 224, 3)
BATCH = 256
WINDOW = 8192


def main() -> None:
    options = parser(__doc__).parse_args()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (WINDOW, *SHAPE), dtype=np.uint8)
    target = np.zeros((BATCH, *SHAPE), np.uint8)
    taken = np.zeros_like(target)
    starts = iter(np.tile(np.arange(0, WINDOW - BATCH, BATCH), 10_000))

    buffer = EchoBuffer(Field(SHAPE, "u1"), batch_size=BATCH, window=WINDOW, factor=1)
    buffer.put_batch(images)

    def echo() -> float:
        if not buffer.ready():
            buffer.put_batch(images)
        return timed(buffer.next_batch)()

    def copy() -> None:
        start = next(starts)
        np.copyto(target, images[start : start + BATCH])

    def take() -> float:
        index = rng.permutation(WINDOW)[:BATCH]
        return timed(lambda: np.take(images, index, axis=0, out=taken, mode="clip"))()

    candidates = {"plain copy": timed(copy), "echobuf": echo, "numpy.take(out=)": take}
    times = interleave(candidates, options.rounds)
    summary = summarise(times)
    plain = summary["plain copy"]["median_s"]
    gigabytes = target.nbytes / 1e9
    for name, row in summary.items():
        row["share_of_plain_copy"] = plain / row["median_s"]
        row["gigabytes_per_s"] = gigabytes / row["median_s"]
        print(
            f"{name:>18}: {row['median_s'] * 1e3:7.2f} ms a batch, "
            f"{row['gigabytes_per_s']:5.1f} GB/s, "
            f"{row['share_of_plain_copy']:.2f} of a plain copy"
        )
    write("image_batches", options.out, {"results": summary})


if __name__ == "__main__":
    main()
