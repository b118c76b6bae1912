"""Keeps JPEG files in the window as they are, and decodes them after each draw.

Files differ in length, so their leaf is ragged, and a `Lambda` makes images of a batch
of them, with Pillow in threads. Beside it, the same files are decoded before echoing:
this takes more memory, and decodes each file once.

pip install . pillow
"""

import argparse
import io
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image

import echobuf
from echobuf import transforms as T

FILE_SIZE = 320, 240  # width and height of the images in the files


def make_files(count: int) -> list[bytes]:
    """Return JPEG files of discs on a gradient, with some noise."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[: FILE_SIZE[1], : FILE_SIZE[0]]
    files = []
    for _ in range(count):
        image = np.add.outer(rows[:, 0], columns[0])[..., None] * rng.uniform(0, 0.4, 3)
        for _ in range(rng.integers(1, 12)):
            y, x = rng.uniform(0, 240), rng.uniform(0, 320)
            disc = np.hypot(rows - y, columns - x) < rng.uniform(10, 60)
            image[disc] = rng.uniform(0, 255, 3)
        image += rng.normal(0, rng.uniform(1, 8), image.shape)
        file = io.BytesIO()
        pixels = image.clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(file, "jpeg", quality=85)
        files.append(file.getvalue())
    return files


class Decoder:
    """Decodes the files of a batch in threads, since Pillow gives the GIL back."""

    def __init__(self, size: int, threads: int) -> None:
        self.size = size
        self.pool = ThreadPoolExecutor(threads)

    def __call__(self, files: echobuf.Ragged) -> np.ndarray:
        """Return the images of a batch, uint8 `[batch_size, size, size, 3]`."""
        return self.all_of(files.to_list())

    def all_of(self, files: Sequence[Any]) -> np.ndarray:
        images = np.empty((len(files), self.size, self.size, 3), np.uint8)

        def decode(index: int) -> None:
            image = Image.open(io.BytesIO(files[index]))
            image.draft("RGB", (self.size, self.size))  # decodes no more than needed
            images[index] = image.convert("RGB").resize((self.size, self.size))

        for _ in self.pool.map(decode, range(len(files))):
            pass
        return images


class DecodedBefore:
    """Batches of decoded images and their labels."""

    def __init__(
        self, examples: list[dict[str, Any]], decoder: Decoder, size: int
    ) -> None:
        self.examples, self.decoder, self.size = examples, decoder, size

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        for first in range(0, len(self.examples), self.size):
            some = self.examples[first : first + self.size]
            yield {
                "image": self.decoder.all_of([each["image"] for each in some]),
                "label": np.array([each["label"] for each in some]),
            }


def load_encoded(
    examples: list[dict[str, Any]], decoder: Decoder, **options: Any
) -> echobuf.EchoLoader:
    mean = np.mean([len(each["image"]) for each in examples])
    size = decoder.size
    return echobuf.EchoLoader(
        examples,
        payload_bytes=int(1.25 * mean * options["window"]),
        transform={"image": [T.Lambda(decoder, shape=(size, size, 3))]},
        **options,
    )


def load_decoded(
    examples: list[dict[str, Any]], decoder: Decoder, **options: Any
) -> echobuf.EchoLoader:
    upstream = DecodedBefore(examples, decoder, options["batch_size"])
    return echobuf.EchoLoader(upstream, batched=True, **options)


def serve(name: str, loader: echobuf.EchoLoader) -> float:
    """Serve an epoch, print what it took, and return the bytes of the window."""
    start, count = time.perf_counter(), 0
    for batch in loader:
        count += len(batch["label"])
    seconds = time.perf_counter() - start
    taken = loader.stats().bytes_host
    loader.close()
    print(
        f"{name}: {taken / 1e6:.1f} MB of memory, {count / seconds:,.0f} examples a "
        "second"
    )
    return taken


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=768)
    parser.add_argument("--size", type=int, default=224, help="of decoded images")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args(arguments)
    files = make_files(args.images)
    examples = [{"image": file, "label": i} for i, file in enumerate(files)]
    decoder = Decoder(args.size, args.threads)
    options = {
        "batch_size": args.batch_size,
        "window": args.window,
        "factor": args.factor,
    }
    print(f"a window of {args.window} images, each served {args.factor} times")
    encoded = serve("decoded after it", load_encoded(examples, decoder, **options))
    decoded = serve("decoded before it", load_decoded(examples, decoder, **options))
    print(f"decoding before takes {decoded / encoded:.1f} times the memory")
    decoder.pool.shutdown()


if __name__ == "__main__":
    main()
