"""Operations that change the numbers of images where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf.transforms import arguments, dtypes
from echobuf.transforms.arguments import Pair
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Alternating, OnImages, Operation

__all__ = [
    "ColorJitter",
    "Layout",
    "Mask",
    "Normalize",
    "RandomErasing",
    "ToChannelFirst",
    "ToDtype",
]


def _deviations(owner: Operation, name: str, value: Any) -> tuple[float, ...]:
    values = arguments.numbers_of(owner, name, value)
    if not np.all(np.asarray(values, np.float32)):
        raise owner.refusal(name, value, "numbers other than 0")
    return values


@dataclass(frozen=True, eq=False)
class Normalize(Operation):
    """(x - mean) / std, each channel by its own; for floats.

    Args:
        mean: a number, or one for each channel.
        std: the same, not 0.

    As `torchvision.transforms.v2.Normalize`: put `ToDtype(np.float32, scale=True)`
    before it where images are uint8.

    Examples:
        >>> image = np.array([[[0, 128, 255]]], np.uint8)  # one pixel, three channels
        >>> chain = [T.ToDtype(np.float32, scale=True), T.Normalize(mean=0.5, std=0.25)]
        >>> loader = EchoLoader([image], batch_size=1, transform=chain)
        >>> next(iter(loader))[0].round(1)
        array([[[-2.,  0.,  2.]]], dtype=float32)
    """

    mean: Any
    std: Any
    _arguments = arguments.checks(mean=arguments.numbers_of, std=_deviations)

    def add_to(self, chain: Chain) -> None:
        chain.image()
        if chain.is_mask:
            return
        if not dtypes.is_float(chain.dtype):
            raise chain.refusal(
                "is for floats: put ToDtype(np.float32, scale=True) before it"
            )
        mean, deviation = (
            chain.for_channels(name, self._value(name)) for name in ("mean", "std")
        )
        chain.normalize(mean, deviation)


@dataclass(frozen=True, eq=False)
class ToDtype(Operation):
    """Numbers converted to floats.

    Args:
        dtype: float32, float16 or bfloat16, of NumPy, torch or ml_dtypes, or its name.
        scale: bring integers to 0 ... 1, by dividing by the largest of their type.

    As `torchvision.transforms.v2.ToDtype`.

    Raises:
        OptionError: another dtype, or bfloat16 where ml_dtypes is not installed.

    Examples:
        >>> row = np.array([[0, 51, 255]], np.uint8)
        >>> chain = [T.ToDtype(np.float32, scale=True)]
        >>> next(iter(EchoLoader([row], batch_size=1, transform=chain)))[0]
        array([[0.        , 0.20000002, 1.        ]], dtype=float32)
    """

    dtype: Any
    scale: bool = False
    keeps_length = True
    _arguments = arguments.checks(
        dtype=lambda owner, name, value: dtypes.float_dtype(value), scale=arguments.flag
    )

    def __repr__(self) -> str:
        return f"ToDtype({self._value('dtype').name}, scale={self.scale})"

    def add_to(self, chain: Chain) -> None:
        if dtypes.code(chain.dtype) == dtypes.OTHER:
            raise chain.refusal("takes real numbers")
        dtype: np.dtype[Any] = self._value("dtype")
        if dtype == chain.dtype:
            return
        factor = 1.0
        if self.scale and dtypes.is_integer(chain.dtype):
            factor = 1.0 / dtypes.largest(chain.dtype)
        chain.become(dtype, factor)


@dataclass(frozen=True, eq=False)
class ToChannelFirst(Operation):
    """Puts the axis of channels first, as torch wants it; of clips behind the frames.

    An image [height, width] becomes one of one channel; what is so already stays.

    Examples:
        >>> image = np.zeros((32, 48, 3), np.uint8)
        >>> loader = EchoLoader([image], batch_size=1, transform=[T.ToChannelFirst()])
        >>> next(iter(loader)).shape
        (1, 3, 32, 48)
    """

    def add_to(self, chain: Chain) -> None:
        chain.channels_first()


_ORDERS = ("HWC", "CHW", "HW", "THWC", "TCHW", "THW")


@dataclass(frozen=True, eq=False)
class Layout(Operation):
    """Says how the axes of an image or a clip are meant, where that cannot be seen.

    A clip has frames along its first axis. All of them get the same crop, flip, window,
    angle, colour factors and order, as those of a video do in torchvision; noise
    differs from frame to frame, and so does the mean that a contrast is about.

    Args:
        order: "HWC", "CHW" or "HW"; of clips "THWC", "TCHW" or "THW".

    Examples:
        >>> frames = np.zeros((4, 8, 8), np.uint8)  # four frames, not channels
        >>> chain = [T.Layout("THW"), T.CenterCrop(6), T.ToChannelFirst()]
        >>> next(iter(EchoLoader([frames], batch_size=1, transform=chain))).shape
        (1, 4, 1, 6, 6)
    """

    order: str
    _arguments = arguments.checks(order=arguments.one_of(*_ORDERS))

    def add_to(self, chain: Chain) -> None:
        if chain.order not in (None, self.order):
            raise chain.refusal(f"comes too late: the image is {chain.order} already")
        chain.image(self.order)


@dataclass(frozen=True, eq=False)
class Mask(Operation):
    """Says that a leaf is a mask, whose numbers are classes: nothing interpolates them.

    Operations after it, which may be those of the image, take the nearest pixel where
    they would interpolate: `Resize` and `RandomResizedCrop` as "nearest",
    `RandomRotation`, `RandomAffine` and `RandomPerspective` too. Their random choices
    stay the same. `ColorJitter`, tones, `Normalize`, `GaussianBlur` and sharpness leave
    a mask as it is.

    Args:
        fill: the class of what lies outside of the image; None: the `fill` of each
            operation.

    Examples:
        >>> image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
        >>> classes = np.array([[0, 7], [7, 0]], np.uint8)
        >>> resize = T.Resize(3)
        >>> transform = {0: [resize], 1: [T.Mask(), resize]}
        >>> loader = EchoLoader([(image, classes)], batch_size=1, transform=transform)
        >>> next(iter(loader))[1][0]  # no class between 0 and 7
        array([[0, 0, 7],
               [0, 0, 7],
               [7, 7, 0]], dtype=uint8)
    """

    fill: Any = None
    _arguments = arguments.checks(fill=arguments.optional(arguments.float32))

    def add_to(self, chain: Chain) -> None:
        chain.is_mask = True
        chain.mask_fill = self.fill


def _erased(owner: Operation, name: str, value: Any) -> tuple[float, ...] | None:
    """Return what takes the place of a rectangle; None for noise."""
    if isinstance(value, str) and value == "random":
        return None
    return arguments.numbers_of(owner, name, value)


@dataclass(frozen=True, eq=False)
class RandomErasing(OnImages):
    """Puts a number, or noise, in place of a rectangle.

    Args:
        p: with which probability.
        scale: the rectangle's share of the image's area, least and most.
        ratio: its height over its width, least and most.
        value: a number, one for each channel, or "random": normal noise. Of uint8 its
            fraction is cut off.

    As `torchvision.transforms.v2.RandomErasing`. Masks stay as they are. Source: Z.
    Zhong et al., "Random erasing data augmentation" (arXiv:1708.04896).

    Examples:
        >>> image = np.ones((4, 5), np.uint8)
        >>> chain = [T.RandomErasing(p=1, scale=(0.2, 0.4), value=0)]
        >>> next(iter(EchoLoader([image], batch_size=1, transform=chain)))[0]
        array([[1, 1, 1, 1, 1],
               [1, 0, 0, 1, 1],
               [1, 0, 0, 1, 1],
               [1, 0, 0, 1, 1]], dtype=uint8)
    """

    p: float = 0.5
    scale: Any = (0.02, 0.33)
    ratio: Any = (0.3, 3.3)
    value: Any = 0
    _arguments = arguments.checks(
        p=arguments.probability,
        scale=arguments.pairs(0.0, 1.0),
        ratio=arguments.ratio,
        value=_erased,
    )

    def _add(self, chain: Chain) -> None:
        values = self._value("value")
        if values is None and dtypes.is_integer(chain.dtype):
            raise chain.refusal("with 'random' is for floats: put ToDtype before it")
        low, high = self._value("ratio")
        settings = {
            "p": float(self.p),
            "scale": list(self._value("scale")),
            "ratio": [math.log(low), math.log(high)],
            "random": int(values is None),
            "value": [
                chain.fitting(self, "value", value)
                for value in chain.for_channels("value", values or [0.0])
            ],
        }
        chain.change("erase", settings, placed=True)


_MOST_FACTOR = 1e6
_MOST_PIXELS = 2**25 - 1  # of an image whose mean the core can take


def check_contrast(chain: Chain) -> None:
    """Raise if an image is too large for the mean that a contrast is about."""
    height, width, _ = chain.extent
    if height * width > _MOST_PIXELS:
        raise chain.refusal(f"with contrast takes {_MOST_PIXELS:,} pixels at most")


def _factor(owner: Operation, name: str, value: Any) -> Pair | None:
    if value is None:
        return None
    if arguments.is_sequence(value):
        both = arguments.pair(owner, name, value, 0.0, _MOST_FACTOR)
    else:
        x = arguments.number(owner, name, value, 0.0, _MOST_FACTOR)
        both = max(0.0, 1.0 - x), 1.0 + x
    return None if both == (1.0, 1.0) else both


def _hue(owner: Operation, name: str, value: Any) -> Pair | None:
    if value is None:
        return None
    both = arguments.range_around(owner, name, value, -0.5)
    if both[1] > 0.5:
        raise owner.refusal(name, value, "within -0.5 ... 0.5")
    return None if both == (0.0, 0.0) else both


@dataclass(frozen=True, eq=False, repr=False)
class ColorJitter(Alternating, OnImages):
    """Random changes of brightness, contrast, saturation and hue, in random order.

    Args:
        brightness: the factor, least and most; a number x is (max(0, 1 - x), 1 + x);
            None leaves it.
        contrast: the same.
        saturation: the same.
        hue: by how much of a full turn, least and most, within -0.5 ... 0.5; a number
            x is (-x, x); None leaves it.
        alternate: draw factors and their order for two uses of an example in an epoch,
            each factor mirrored about the middle of its range at the second: 0.9 of
            0.5 ... 1.5 becomes 1.1. Otherwise uses are independent.

    As `torchvision.transforms.v2.ColorJitter`, for 1 or 3 channels, floats in 0 ... 1,
    but for `alternate`.

    Examples:
        >>> image = np.full((1, 1, 3), [200, 100, 50], np.uint8)
        >>> chain = [T.ColorJitter(brightness=0.5)]
        >>> loader = EchoLoader([image] * 3, batch_size=3, factor=1, transform=chain)
        >>> next(iter(loader))[:, 0, 0].tolist()  # each draw has another factor
        [[187, 93, 46], [195, 97, 48], [106, 53, 26]]
    """

    brightness: Any = None
    contrast: Any = None
    saturation: Any = None
    hue: Any = None
    _of_colours = True
    _arguments = arguments.checks(
        brightness=_factor, contrast=_factor, saturation=_factor, hue=_hue
    )

    def _add(self, chain: Chain) -> None:
        names = "brightness", "contrast", "saturation", "hue"
        ranges: list[Pair | None] = [self._value(name) for name in names]
        if not any(ranges):
            return
        if ranges[1] is not None:
            check_contrast(chain)
        integer = dtypes.is_integer(chain.dtype)
        settings = {
            "in": chain.extent,
            "least": [0.0 if both is None else both[0] for both in ranges],
            "most": [0.0 if both is None else both[1] for both in ranges],
            "active": sum(1 << k for k, both in enumerate(ranges) if both is not None),
            "integer": int(integer),
            "bound": dtypes.largest(chain.dtype),
        }
        chain.change("jitter", settings, statistic=ranges[1] is not None)
