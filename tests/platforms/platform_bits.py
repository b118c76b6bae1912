"""Digests of batches: the same bits on each processor and with any instructions.

Inputs are hashed from integers, without a library's random numbers. As a program it
prints the digests as JSON, those of `bits.json` on each platform:

    python tests/platforms/platform_bits.py > tests/platforms/bits.json
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf import transforms as T

Digests = dict[str, str]
HEIGHT, WIDTH, COUNT = 19, 37, 6
"""Rows that end in the middle of a vector, of 16 bytes or of 64."""


def hashed(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return random bytes (splitmix64, the lowest byte of each number)."""
    numbers = np.arange(np.prod(shape, dtype=int), dtype=np.uint64)
    numbers += np.uint64(seed << 32)
    numbers *= np.uint64(0x9E3779B97F4A7C15)
    numbers ^= numbers >> np.uint64(30)
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= numbers >> np.uint64(27)
    numbers *= np.uint64(0x94D049BB133111EB)
    return (numbers >> np.uint64(56)).astype(np.uint8).reshape(shape)


def pixels(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return bytes, or floats in [0, 1), which each of the dtypes has exactly."""
    bytes_ = hashed(shape, seed)
    if dtype == "uint8":
        return bytes_
    return (bytes_.astype(np.float32) / 256).astype(dtype)


def digest(batches: Iterator[Any] | list[Any]) -> str:
    """Return the digest of leaves, where all NaNs are one if they were computed."""
    sha = hashlib.sha256()
    for batch in batches:
        for name in sorted(batch):
            leaf = np.ascontiguousarray(batch[name])
            sha.update(f"{name} {leaf.dtype} {leaf.shape}".encode())
            if leaf.dtype.kind == "f" and name != "bits":
                leaf = np.where(np.isnan(leaf), np.asarray(np.nan, leaf.dtype), leaf)
            sha.update(leaf.tobytes())
    return sha.hexdigest()[:16]


def served(examples: dict[str, np.ndarray], **options: Any) -> Iterator[Any]:
    """Yield the batches of one epoch, copied; axis 0 of the arrays are the examples."""
    count = len(next(iter(examples.values())))
    spec = {name: Field(leaf.shape[1:], leaf.dtype) for name, leaf in examples.items()}
    options = {"batch_size": 4, "window": count, "factor": 2, "seed": 11} | options
    with EchoBuffer(spec, **options) as buffer:
        buffer.put_batch(examples)
        buffer.close()
        for batch in buffer:
            yield {name: leaf.copy() for name, leaf in batch.items()}


# Orders: passes over windows of many sizes, in pieces that are aligned to nothing.


def order_cases() -> Iterator[tuple[str, Any]]:
    """Yield the order of draws for windows, factors, epochs and seeds."""
    for window in (1, 2, 3, 7, 16, 31, 64, 100, 255, 1000, 4099):
        for batch_size in {1, min(window, 5), min(window, 129)}:
            yield (
                f"order {window} {batch_size}",
                served(
                    {"index": np.arange(window)},
                    batch_size=batch_size,
                    factor=min(window, 3),
                ),
            )
    for seed in (0, 1, 2**32, 2**64 - 1):
        yield (
            f"order seed {seed}",
            served({"index": np.arange(300)}, seed=seed, batch_size=64),
        )
    for factor in (1, 1.5, 2.5, 3.75):
        for seed in range(3):
            index = {"index": np.arange(96)}
            options = {"batch_size": 16, "factor": factor, "seed": seed}
            yield f"order factor {factor} {seed}", served(index, **options)


# Copies: records of all sizes, through the caches and past them.


def copy_cases() -> Iterator[tuple[str, Any]]:
    """Yield records as they were put: floats keep the bits of their NaNs, too."""
    sizes = (0, 1, 2, 3, 4, 7, 8, 12, 16, 24, 31, 33, 63, 65, 127, 136, 240, 272, 1000)
    small = {f"{size:05}": hashed((40, size), size) for size in sizes}
    yield "copy small", served(small, batch_size=7)
    for size in (1023, 4097, 12289, 70001):
        leaves = {"large": hashed((9, size), size), "small": hashed((9, 5), 1)}
        yield f"copy {size}", served(leaves, batch_size=5)
    for dtype in ("float16", "float32", "float64"):
        bits = hashed((40, 33, np.dtype(dtype).itemsize), 3)
        bits[::3, :, -1] |= 0x7F
        yield f"copy {dtype}", served({"bits": bits.view(dtype)[..., 0]})


# Transforms: each operation alone, and chains, of dtypes and layouts.

ANY = {
    "crop": [T.RandomCrop((15, 30), padding=3, padding_mode="reflect")],
    "crop edge": [T.RandomCrop(18, padding=5, padding_mode="edge")],
    "center": [T.CenterCrop((11, 29))],
    "pad": [T.Pad((3, 1, 4, 2), padding_mode="symmetric")],
    "flips": [T.RandomHorizontalFlip(), T.RandomVerticalFlip()],
    "nearest": [T.Resize((23, 29), interpolation="nearest")],
    "nearest-exact": [T.Resize((7, 61), interpolation="nearest-exact")],
    "resize": [T.Resize((11, 17))],
    "resize up": [T.Resize((40, 71), antialias=False)],
    "resized crop": [T.RandomResizedCrop((13, 31), scale=(0.1, 0.9))],
    "rotation": [T.RandomRotation(40)],
    "rotation bilinear": [T.RandomRotation(40, interpolation="bilinear")],
    "affine": [
        T.RandomAffine(30, (0.2, 0.1), (0.5, 1.5), 20, interpolation="bilinear")
    ],
    "perspective": [T.RandomPerspective(0.6, p=1.0)],
    "erasing": [T.RandomErasing(1.0)],
    "jitter": [T.ColorJitter(0.5, 0.5, 0.5, 0.4)],
    "grey": [T.RandomGrayscale(0.5)],
    "invert": [T.RandomInvert()],
    "noise": [T.GaussianNoise(0.1, 0.3)],
    "blur": [T.GaussianBlur(5)],
    "blur wide": [T.GaussianBlur((9, 3), sigma=(0.5, 4.0))],
    "sharpness": [T.Sharpness(1.7)],
    "cut": [T.CutMix(labels=None)],
    "to half": [T.ToDtype("float16", scale=True)],
    "to bfloat16": [T.ToDtype("bfloat16", scale=True)],
    "to float": [T.ToDtype("float32", scale=True)],
    "training": [
        T.RandomResizedCrop(16),
        T.RandomHorizontalFlip(),
        T.ToDtype("float32", scale=True),
        T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ],
    "chain": [
        T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
        T.RandomChoice([T.RandomRotation(15), T.RandomErasing(1.0)]),
        T.RandomOrder([T.RandomInvert(), T.RandomGrayscale(0.5)]),
        T.ToDtype("float16", scale=True),
    ],
}
BYTES = {
    "equalize": [T.Equalize()],
    "autocontrast": [T.AutoContrast()],
    "posterize": [T.RandomPosterize(3)],
    "solarize": [T.RandomSolarize(100)],
    "auto": [T.AutoAugment()],
    "rand": [T.RandAugment(3)],
    "trivial": [T.TrivialAugmentWide()],
}
FLOATS = {
    "erasing random": [T.RandomErasing(1.0, value="random")],
    "normalize": [T.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.1))],
    "mix": [T.MixUp(labels=None)],
}
ODD = {
    name: ANY[name]
    for name in ("crop", "resize", "affine", "blur", "to half", "to bfloat16")
} | {"normalize": FLOATS["normalize"]}


def transform_cases() -> Iterator[tuple[str, Any]]:
    """Yield each operation on images of some dtypes and layouts."""
    kinds = (("uint8", BYTES), ("float32", FLOATS), ("float16", FLOATS))
    for seed, (dtype, more) in enumerate(kinds):
        for order, shape in (
            ("HWC", (COUNT, HEIGHT, WIDTH, 3)),
            ("CHW", (COUNT, 3, HEIGHT, WIDTH)),
        ):
            images = {"x": pixels(dtype, shape, seed)}
            for name, chain in (ANY | more).items():
                transform = {"x": [T.Layout(order), *chain]}
                yield (
                    f"{name} {dtype} {order}",
                    served(images, transform=transform),
                )


def odd_cases() -> Iterator[tuple[str, Any]]:
    """Yield operations on NaN, infinities, denormal and huge numbers."""
    odd = np.array(
        [np.nan, np.inf, -np.inf, 3e38, -3e38, 65519.9, 65520, 6e-8, 1e-44, -0.0],
        np.float32,
    )
    images = pixels("float32", (COUNT, HEIGHT, WIDTH, 3), 2)
    which = hashed(images.shape, 5)
    images = np.where(which < 20, odd[which % len(odd)], images)
    for name, chain in ODD.items():
        yield f"odd {name}", served({"x": images}, transform={"x": chain})


def other_cases() -> Iterator[tuple[str, Any]]:
    """Yield leaves that are no images, or follow one."""
    image = pixels("uint8", (COUNT, HEIGHT, WIDTH, 3), 7)
    boxes = hashed((COUNT, 5, 4), 8).astype(np.float32) / 8
    boxes[..., 2:] += boxes[..., :2]
    warp = [T.RandomHorizontalFlip(), T.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10)]
    yield (
        "followers",
        served(
            {
                "image": image,
                "mask": image[..., 0] // 64,
                "boxes": boxes,
                "points": boxes[..., :2].copy(),
            },
            transform={
                "image": warp,
                "mask": [T.Mask(), *warp],
                "boxes": [T.BoundingBoxes("image"), *warp],
                "points": [T.Keypoints("image"), *warp],
            },
        ),
    )
    tokens = hashed((COUNT, 129), 9).astype(np.int32)
    yield "tokens", served({"x": tokens}, transform={"x": [T.TokenMask(3, 256)]})
    sound = pixels("float32", (COUNT, 333), 10)
    window = [T.RandomWindow(100), T.RandomGain(), T.GaussianNoise(clip=False)]
    yield "sound", served({"x": sound}, transform={"x": window})
    spectrum = pixels("float32", (COUNT, 40, 61), 11)
    yield (
        "spectrum",
        served({"x": spectrum}, transform={"x": [T.SpecMask(9, 20, 2, 2)]}),
    )
    clip = pixels("uint8", (COUNT, 4, HEIGHT, WIDTH, 3), 12)
    chain = [T.Layout("THWC"), T.RandomResizedCrop(12), T.ColorJitter(0.4, 0.4)]
    yield "clip", served({"x": clip}, transform={"x": chain})


def ragged_cases() -> Iterator[tuple[str, Any]]:
    """Yield chains on leaves of any length, made in pieces and in windows."""
    lengths = [0, 1, 31, 33, 511, 513, 700, 1057]
    bits = hashed((sum(lengths), 3), 13)
    offsets = np.cumsum([0, *lengths])
    window = T.RandomWindow(100)
    mask = T.TokenMask(3, 256, p=0.4)
    chains = {
        "masked": ("int32", 1, [mask]),
        "noise": ("float32", 3, [T.RandomGain(), T.GaussianNoise(0.1, 0.3)]),
        "bands": ("float16", 3, [T.SpecMask(2, 90, 1, 2, time_axis=0)]),
        "half": ("uint8", 3, [T.ToDtype("float16", scale=True)]),
        "window": ("int32", 1, [window, mask]),
        "center": ("uint8", 3, [T.CenterWindow(77), T.ToDtype("float32")]),
    }
    for name, (dtype, columns, chain) in chains.items():
        values = pixels(dtype, (len(bits), columns), 14)
        field = Field((None, columns), dtype, max_length=max(lengths))
        forms = ("packed",) if name in ("window", "center") else ("packed", "padded")
        for form in forms:
            yield f"ragged {name} {form}", records(field, values, offsets, chain, form)


def records(
    field: Field,
    values: np.ndarray,
    offsets: np.ndarray,
    chain: list[T.Operation],
    ragged: Any,
) -> Iterator[Any]:
    """Yield the batches of one epoch, in which each record comes twice."""
    options = {"batch_size": 3, "window": len(offsets) - 1, "factor": 2, "seed": 11}
    with EchoBuffer(field, transform=chain, ragged=ragged, **options) as buffer:
        for first, last in itertools.pairwise(offsets.tolist()):
            buffer.put(values[first:last])
        buffer.close()
        for batch in buffer:
            leaves = batch if isinstance(batch, tuple) else (batch,)
            yield {str(i): np.array(leaf) for i, leaf in enumerate(leaves)}


def digests() -> Digests:
    """Return the digest of each case by its name."""
    found: Digests = {}
    for cases in (
        order_cases,
        copy_cases,
        transform_cases,
        odd_cases,
        other_cases,
        ragged_cases,
    ):
        for name, batches in cases():
            assert name not in found, name
            found[name] = digest(batches)
    return found


if __name__ == "__main__":
    print(json.dumps(digests(), indent=0))
