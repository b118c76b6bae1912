"""Random chains of operations that fit an image, for hypothesis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from transform_engine import Step

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(name) for name in ("uint8", "float16", "float32")] + [BFLOAT16]
FLOATS = DTYPES[1:]


@dataclass
class Image:
    """The state of an image, operation by operation."""

    height: int
    width: int
    channels: int
    dtype: np.dtype
    negative: bool = False  # perhaps: what colours are not

    @property
    def whole(self) -> bool:
        return self.dtype == np.uint8


def value(draw: st.DrawFn, image: Image) -> float:
    """A number that the image can have."""
    if image.whole:
        return draw(st.integers(0, 255))
    image.negative = True
    return draw(st.floats(-2, 2, width=16))


def values(draw: st.DrawFn, image: Image) -> Any:
    """The same, or one for each channel."""
    if draw(st.booleans()):
        return value(draw, image)
    return [value(draw, image) for _ in range(image.channels)]


def random_crop(draw: st.DrawFn, image: Image) -> Step:
    mode = draw(st.sampled_from(["constant", "edge", "reflect", "symmetric"]))
    most = min(image.height, image.width) - 1
    padding = draw(st.lists(st.integers(0, min(3, most)), min_size=4, max_size=4))
    padding = padding[: draw(st.sampled_from([1, 2, 4]))]
    left, top, right, bottom = (padding * 4)[:4]
    size = (
        draw(st.integers(1, image.height + top + bottom)),
        draw(st.integers(1, image.width + left + right)),
    )
    options = {"size": size, "padding": padding, "padding_mode": mode}
    if mode == "constant":
        options["fill"] = values(draw, image)
    image.height, image.width = size
    return "RandomCrop", options


def center_crop(draw: st.DrawFn, image: Image) -> Step:
    size = draw(st.integers(1, image.height)), draw(st.integers(1, image.width))
    image.height, image.width = size
    return "CenterCrop", {"size": size}


def flip(draw: st.DrawFn, image: Image) -> Step:
    name = draw(st.sampled_from(["RandomHorizontalFlip", "RandomVerticalFlip"]))
    return name, {"p": draw(st.sampled_from([0.0, 0.5, 0.7, 1.0]))}


def nearest(draw: st.DrawFn, image: Image) -> Step:
    size = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    image.height, image.width = size
    how = draw(st.sampled_from(["nearest", "nearest-exact"]))
    return "Resize", {"size": size, "interpolation": how}


def erasing(draw: st.DrawFn, image: Image) -> Step:
    return "RandomErasing", {
        "p": draw(st.sampled_from([0.5, 1.0])),
        "scale": (0.1, 0.6),
        "value": values(draw, image),
    }


def to_dtype(draw: st.DrawFn, image: Image) -> Step:
    dtype = draw(st.sampled_from(FLOATS))
    scale = draw(st.booleans())
    image.dtype = dtype
    return "ToDtype", {"dtype": dtype, "scale": scale}


def normalize(draw: st.DrawFn, image: Image) -> Step:
    if image.whole:
        return to_dtype(draw, image)
    image.negative = True
    number = st.floats(0.125, 3, width=16)
    count = draw(st.sampled_from([1, image.channels]))
    both = st.lists(number, min_size=count, max_size=count)
    return "Normalize", {"mean": draw(both), "std": draw(both)}


def jitter(draw: st.DrawFn, image: Image) -> Step:
    """The reference rounds halves after each of the four steps: those by itself."""
    if image.dtype.name in ("float16", "bfloat16"):
        return flip(draw, image)
    return any_jitter(draw, image)


def any_jitter(draw: st.DrawFn, image: Image) -> Step:
    if image.channels not in (1, 3) or image.negative:
        return flip(draw, image)
    factor = st.none() | st.floats(0, 0.875, width=16)
    names = ["brightness", "saturation", "hue"]
    # The mean of floats is summed exactly here, and not in the reference.
    names += ["contrast"] if image.whole else []
    options = {name: draw(factor) for name in names}
    if options["hue"] is not None:
        options["hue"] /= 2
    return "ColorJitter", options


EXACT = (random_crop, center_crop, flip, nearest, erasing, to_dtype, normalize, jitter)


def resize(draw: st.DrawFn, image: Image) -> Step:
    size = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    image.height, image.width = size
    return "Resize", {"size": size, "antialias": draw(st.booleans())}


def resized_crop(draw: st.DrawFn, image: Image) -> Step:
    size = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    # With the last no attempt fits, and a box in the middle is taken.
    ratios = [(0.75, 4 / 3), (1.0, 1.0), (5.0, 9.0)][: 3 if image.width >= 3 else 2]
    image.height, image.width = size
    low = draw(st.floats(0.05, 1))
    return "RandomResizedCrop", {
        "size": size,
        "scale": (low, 1.0),
        "ratio": draw(st.sampled_from(ratios)),
        "antialias": draw(st.booleans()),
    }


def rotation(draw: st.DrawFn, image: Image) -> Step:
    return "RandomRotation", {
        "degrees": draw(st.sampled_from([20, 180, (5, 70)])),
        "interpolation": "bilinear",
        "fill": values(draw, image),
    }


def affine(draw: st.DrawFn, image: Image) -> Step:
    return "RandomAffine", {
        "degrees": draw(st.sampled_from([0, 20, (5, 70)])),
        "translate": draw(st.sampled_from([None, (0.3, 0.1)])),
        "scale": draw(st.sampled_from([None, (0.7, 1.4)])),
        "shear": draw(st.sampled_from([None, 10, (5, 9, -4, 4)])),
        "interpolation": "bilinear",
        "center": draw(st.sampled_from([None, (1, 2)])),
        "fill": values(draw, image),
    }


def noise(draw: st.DrawFn, image: Image) -> Step:
    return "GaussianNoise", {"mean": 0.1, "sigma": 0.2}


def gain(draw: st.DrawFn, image: Image) -> Step:
    return noise(draw, image) if image.whole else ("RandomGain", {})


CLOSE = (any_jitter, resize, resized_crop, rotation, affine, noise, gain)
"""Operations that the reference computes in float64."""


@st.composite
def images(draw: st.DrawFn, dtypes: Any = DTYPES) -> Image:
    """Any small image."""
    size = st.integers(1, 12)
    channels = draw(st.sampled_from([1, 2, 3, 3, 4]))
    dtype = draw(st.sampled_from(list(dtypes)))
    return Image(draw(size), draw(size), channels, dtype)


@st.composite
def chains(
    draw: st.DrawFn, image: Image, kinds: Any = EXACT, most: int = 6
) -> list[Step]:
    """Operations one after another; `image` becomes what they make of it."""
    count = draw(st.integers(1, most))
    return [draw(st.sampled_from(kinds))(draw, image) for _ in range(count)]


def pixels(image: Image, count: int, seed: int) -> list[np.ndarray]:
    """Different images of a kind, [height, width, channels]."""
    random = np.random.default_rng(seed)
    shape = (image.height, image.width, image.channels)
    whole = random.integers(0, 256, (count, *shape), np.uint8)
    if image.whole:
        return list(whole)
    return list((whole / np.float32(255)).astype(image.dtype))


def step_of(dtype: np.dtype) -> float:
    """The distance of numbers next to 1, where they are rounded."""
    bits = {"float16": 10, "bfloat16": 7, "float32": 17}
    return math.ldexp(1, -bits[dtype.name])
