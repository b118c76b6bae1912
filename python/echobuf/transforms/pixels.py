"""Operations that change the numbers of images where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf.transforms import arguments, dtypes
from echobuf.transforms.alternating import Alternating
from echobuf.transforms.arguments import Pair
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation


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

    def __post_init__(self) -> None:
        arguments.make_plain(self)
        arguments.numbers_of(self, "mean", self.mean)
        std = arguments.numbers_of(self, "std", self.std)
        if not np.all(np.asarray(std, np.float32)):
            raise self.refusal("std", self.std, "numbers other than 0")

    def add_to(self, chain: Chain) -> None:
        _, _, channels = chain.image()
        if chain.is_mask:
            return
        if not dtypes.is_float(chain.dtype):
            raise chain.refusal(
                "is for floats: put ToDtype(np.float32, scale=True) before it"
            )
        both = []
        for name in ("mean", "std"):
            values = arguments.numbers_of(self, name, getattr(self, name))
            if len(values) not in (1, channels):
                raise chain.refusal(
                    f"has {len(values)} numbers in `{name}` for {channels} channels"
                )
            both.append(list(values) * (channels if len(values) == 1 else 1))
        chain.normalize(*both)


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

    def __repr__(self) -> str:
        name = dtypes.float_dtype(self.dtype).name
        return f"ToDtype({name}, scale={self.scale})"

    def __post_init__(self) -> None:
        arguments.make_plain(self)
        dtypes.float_dtype(self.dtype)
        arguments.flag(self, "scale", self.scale)

    def add_to(self, chain: Chain) -> None:
        if dtypes.code(chain.dtype) == dtypes.OTHER:
            raise chain.refusal("takes real numbers")
        dtype = dtypes.float_dtype(self.dtype)
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

    def __post_init__(self) -> None:
        arguments.make_plain(self)
        arguments.choice(self, "order", self.order, _ORDERS)

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

    def __post_init__(self) -> None:
        arguments.make_plain(self)
        if self.fill is not None:
            arguments.float32(self, "fill", self.fill)

    def add_to(self, chain: Chain) -> None:
        chain.is_mask = True
        chain.mask_fill = self.fill


@dataclass(frozen=True, eq=False)
class RandomErasing(Operation):
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

    def __post_init__(self) -> None:
        arguments.make_plain(self)
        arguments.probability(self, self.p)
        arguments.pair(self, "scale", self.scale, 0.0, 1.0)
        arguments.ratio(self, self.ratio)
        if not self._random:
            arguments.numbers_of(self, "value", self.value)

    @property
    def _random(self) -> bool:
        return isinstance(self.value, str) and self.value == "random"

    def add_to(self, chain: Chain) -> None:
        _, _, channels = chain.image()
        if chain.is_mask:
            return
        chain.computes()
        if self._random and dtypes.is_integer(chain.dtype):
            raise chain.refusal("with 'random' is for floats: put ToDtype before it")
        values = [0.0]
        if not self._random:
            values = list(arguments.numbers_of(self, "value", self.value))
        if len(values) not in (1, channels):
            raise chain.refusal(
                f"has {len(values)} numbers in `value` for {channels} channels"
            )
        values = [chain.fitting(self, "value", value) for value in values]
        ratio = arguments.ratio(self, self.ratio)
        settings = {
            "p": float(self.p),
            "scale": list(arguments.pair(self, "scale", self.scale)),
            "ratio": [math.log(ratio[0]), math.log(ratio[1])],
            "random": int(self._random),
            "value": values * (channels if len(values) == 1 else 1),
        }
        chain.change("erase", settings, placed=True)


_MOST_FACTOR = 1e6
MOST_PIXELS = 2**25 - 1
"""Pixels of an image whose mean the core can take."""


@dataclass(frozen=True, eq=False, repr=False)
class ColorJitter(Alternating):
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

    def __post_init__(self) -> None:
        arguments.make_plain(self)
        self._check_alternate()
        self._ranges()

    def _ranges(self) -> list[Pair | None]:
        factors = [self._factor(n) for n in ("brightness", "contrast", "saturation")]
        return [*factors, self._hue()]

    def _factor(self, name: str) -> Pair | None:
        value = getattr(self, name)
        if value is None:
            return None
        if arguments.is_sequence(value):
            both = arguments.pair(self, name, value, 0.0, _MOST_FACTOR)
        else:
            x = arguments.number(self, name, value, 0.0, _MOST_FACTOR)
            both = max(0.0, 1.0 - x), 1.0 + x
        return None if both == (1.0, 1.0) else both

    def _hue(self) -> Pair | None:
        if self.hue is None:
            return None
        both = arguments.range_around(self, "hue", self.hue, -0.5)
        if both[1] > 0.5:
            raise self.refusal("hue", self.hue, "within -0.5 ... 0.5")
        return None if both == (0.0, 0.0) else both

    def add_to(self, chain: Chain) -> None:
        height, width, channels = chain.image()
        if chain.is_mask:
            return
        if channels not in (1, 3):
            raise chain.refusal("takes images of 1 or 3 channels")
        chain.computes()
        ranges = self._ranges()
        if not any(ranges):
            return
        if ranges[1] is not None and height * width > MOST_PIXELS:
            raise chain.refusal(f"with contrast takes {MOST_PIXELS:,} pixels at most")
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
