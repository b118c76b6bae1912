"""The digits: written as PNG files, read back, and distorted."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from echobuf.transforms import RandomAffine

SIDE = 16  # pixels of a distorted image, each way; the files have 8
_TEST = 600  # digits held out for the test set
_SPLIT_SEED = 1234  # the split is the same whatever the seed of the demo
_LEVEL = 15  # scikit-learn's 0..16 to the 0..240 of a grey PNG

_ROTATION = 0.4  # radians, either way
_SCALE = 0.2  # of the size, either way
_SHIFT = 0.75  # pixels of the file, either way


class Digits(NamedTuple):
    """Names of the files of the digits, relative to their folder."""

    train: tuple[str, ...]
    test: tuple[str, ...]


def write_digits(folder: Path) -> Digits:
    """Write scikit-learn's 1,797 handwritten digits as PNG files into a folder."""
    digits = load_digits()
    names = [f"{i:04d}-{label}.png" for i, label in enumerate(digits.target)]
    for name, pixels in zip(names, digits.images, strict=True):
        grey = (pixels * _LEVEL).astype(np.uint8)
        Image.fromarray(grey).save(folder / name)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(names))
    shuffled = [names[i] for i in order]
    return Digits(train=tuple(shuffled[_TEST:]), test=tuple(shuffled[:_TEST]))


def label_of(name: str) -> int:
    """Return the digit that a file shows, from its name."""
    return int(Path(name).stem.split("-")[1])


def decode(png: bytes) -> Image.Image:
    """Decode a PNG file."""
    image = Image.open(io.BytesIO(png))
    image.load()
    return image


def augment(image: Image.Image, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Rotate, scale, shift and enlarge a grey image to `uint8[SIDE, SIDE]`, at random.

    Takes four draws of the generator.
    """
    angle, scale, dx, dy = rng.uniform(-1.0, 1.0, 4)
    step = image.width / SIDE / (1.0 + _SCALE * scale)
    cos = step * math.cos(_ROTATION * angle)
    sin = step * math.sin(_ROTATION * angle)
    centre, half = image.width / 2, SIDE / 2
    # Pillow wants the map from a pixel of the result to a point of the source.
    matrix = (
        *(cos, sin, centre + _SHIFT * dx - (cos + sin) * half),
        *(-sin, cos, centre + _SHIFT * dy - (cos - sin) * half),
    )
    result = image.transform(
        (SIDE, SIDE), Image.Transform.AFFINE, matrix, Image.Resampling.BICUBIC
    )
    return np.array(result, dtype=np.uint8)


def enlarge(image: Image.Image, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Enlarge an image as `augment` does, without its distortion."""
    del rng
    result = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.array(result, dtype=np.uint8)


def distortion() -> RandomAffine:
    """Return `augment`'s distortion as an operation inside the draw.

    Unlike `augment` it shifts by whole pixels, and interpolates linearly.
    """
    shift = 2.0 * _SHIFT / SIDE  # the files' pixels are two of ours
    return RandomAffine(
        math.degrees(_ROTATION),
        translate=(shift, shift),
        scale=(1.0 - _SCALE, 1.0 + _SCALE),
        interpolation="bilinear",
    )


def test_set(
    folder: Path, names: Sequence[str]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read the held-out digits and distort them, always in the same way.

    Returns images `uint8[n, SIDE, SIDE]` and labels `int64[n]`.
    """
    rng = np.random.default_rng(_SPLIT_SEED)
    images = [augment(decode((folder / name).read_bytes()), rng) for name in names]
    labels = [label_of(name) for name in names]
    return np.stack(images), np.asarray(labels, dtype=np.int64)
