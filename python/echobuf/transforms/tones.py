"""Operations that give the numbers of images other values, equal ones the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf.transforms import arguments, dtypes
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import OnImages, Operation

__all__ = [
    "AutoContrast",
    "Equalize",
    "Grayscale",
    "Invert",
    "Posterize",
    "RandomAutocontrast",
    "RandomEqualize",
    "RandomGrayscale",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
    "Solarize",
]

_MOST_BITS = 8


class _Tone(OnImages):
    """The base of tones."""

    @property
    def _chance(self) -> float:
        """The probability with which it is applied."""
        return float(getattr(self, "p", 1.0))


@dataclass(frozen=True, eq=False)
class _AtChance(_Tone):
    """The base of tones that are applied with a probability."""

    p: float = 0.5
    _arguments = arguments.checks(p=arguments.probability)


def _is_integer(chain: Chain) -> int:
    return int(dtypes.is_integer(chain.dtype))


@dataclass(frozen=True, eq=False)
class Invert(_Tone):
    """Dark made light: 255 - x of uint8, 1 - x of floats; of images of any channels.

    As `torchvision.transforms.v2.functional.invert`.

    Examples:
        >>> row = np.array([[0, 100, 200, 255]], np.uint8)
        >>> loader = EchoLoader([row], batch_size=1, transform=[T.Invert()])
        >>> next(iter(loader))[0]
        array([[255, 155,  55,   0]], dtype=uint8)
    """

    def _add(self, chain: Chain) -> None:
        chain.change(
            "invert", {"p": self._chance, "white": dtypes.largest(chain.dtype)}
        )


@dataclass(frozen=True, eq=False)
class RandomInvert(_AtChance, Invert):
    """`Invert`, with a probability.

    Args:
        p: the probability.

    As `torchvision.transforms.v2.RandomInvert`.

    Examples:
        >>> row = np.array([[0, 100, 200, 255]], np.uint8)
        >>> chain = [T.RandomInvert(p=0.5)]
        >>> loader = EchoLoader(
        ...     [row] * 3, batch_size=3, factor=1, seed=5, transform=chain
        ... )
        >>> next(iter(loader))[:, 0].tolist()
        [[255, 155, 55, 0], [255, 155, 55, 0], [0, 100, 200, 255]]
    """


@dataclass(frozen=True, eq=False)
class Solarize(_Tone):
    """Light made dark: numbers from a threshold on are inverted.

    Args:
        threshold: not above 255 for uint8, nor above 1 for floats; rounded to floats of
            the image's type, of uint8 to float32.

    As `torchvision.transforms.v2.functional.solarize`, for images of any channels.

    Examples:
        >>> row = np.array([[0, 100, 200, 255]], np.uint8)
        >>> loader = EchoLoader(
        ...     [row], batch_size=1, transform=[T.Solarize(threshold=128)]
        ... )
        >>> next(iter(loader))[0]
        array([[  0, 100,  55,   0]], dtype=uint8)
    """

    threshold: float
    _arguments = arguments.checks(threshold=arguments.float32)

    def _add(self, chain: Chain) -> None:
        add_solarize(chain, self._chance, [self._value("threshold")])


@dataclass(frozen=True, eq=False)
class RandomSolarize(_AtChance, Solarize):
    """`Solarize`, with a probability.

    Args:
        threshold: as there.
        p: the probability.

    As `torchvision.transforms.v2.RandomSolarize`.

    Examples:
        >>> row = np.array([[0, 100, 200, 255]], np.uint8)
        >>> chain = [T.RandomSolarize(threshold=128, p=0.5)]
        >>> loader = EchoLoader(
        ...     [row] * 3, batch_size=3, factor=1, seed=5, transform=chain
        ... )
        >>> next(iter(loader))[:, 0].tolist()
        [[0, 100, 55, 0], [0, 100, 55, 0], [0, 100, 200, 255]]
    """


@dataclass(frozen=True, eq=False)
class Posterize(_Tone):
    """The first bits of numbers kept, the others 0.

    Args:
        bits: 0 to 8. Floats in 0 ... 1 become multiples of 1 / 2**bits below 1.

    As `torchvision.transforms.v2.functional.posterize`, for images of any channels.

    Examples:
        >>> row = np.array([[0, 100, 200, 255]], np.uint8)
        >>> loader = EchoLoader([row], batch_size=1, transform=[T.Posterize(bits=2)])
        >>> next(iter(loader))[0]
        array([[  0,  64, 192, 192]], dtype=uint8)
    """

    bits: int
    _arguments = arguments.checks(bits=arguments.integers(0, _MOST_BITS))

    def _add(self, chain: Chain) -> None:
        add_posterize(chain, self._chance, [self._value("bits")])


@dataclass(frozen=True, eq=False)
class RandomPosterize(_AtChance, Posterize):
    """`Posterize`, with a probability.

    Args:
        bits: as there.
        p: the probability.

    As `torchvision.transforms.v2.RandomPosterize`.

    Examples:
        >>> row = np.array([[0, 100, 200, 255]], np.uint8)
        >>> chain = [T.RandomPosterize(bits=2, p=0.5)]
        >>> loader = EchoLoader(
        ...     [row] * 3, batch_size=3, factor=1, seed=5, transform=chain
        ... )
        >>> next(iter(loader))[:, 0].tolist()
        [[0, 64, 192, 192], [0, 64, 192, 192], [0, 100, 200, 255]]
    """


@dataclass(frozen=True, eq=False)
class AutoContrast(_Tone):
    """Each channel stretched so that its least number is black and its most is white.

    A channel of equal numbers stays as it is, within black and white. NaN does not
    count, and stays.

    As `torchvision.transforms.v2.functional.autocontrast`, for 1 or 3 channels.

    Examples:
        >>> row = np.array([[100, 110, 120]], np.uint8)
        >>> loader = EchoLoader([row], batch_size=1, transform=[T.AutoContrast()])
        >>> next(iter(loader))[0]
        array([[  0, 127, 254]], dtype=uint8)
    """

    _of_colours = True

    def _add(self, chain: Chain) -> None:
        white = dtypes.largest(chain.dtype)
        settings = {
            "p": self._chance,
            "white": white,
            "integer": _is_integer(chain),
        }
        chain.change("auto_contrast", settings, statistic=True)


@dataclass(frozen=True, eq=False)
class RandomAutocontrast(_AtChance, AutoContrast):
    """`AutoContrast`, with a probability.

    Args:
        p: the probability.

    As `torchvision.transforms.v2.RandomAutocontrast`.

    Examples:
        >>> row = np.array([[100, 110, 120]], np.uint8)
        >>> chain = [T.RandomAutocontrast(p=0.5)]
        >>> loader = EchoLoader(
        ...     [row] * 3, batch_size=3, factor=1, seed=5, transform=chain
        ... )
        >>> next(iter(loader))[:, 0].tolist()
        [[0, 127, 254], [0, 127, 254], [100, 110, 120]]
    """


@dataclass(frozen=True, eq=False)
class Equalize(_Tone):
    """The histogram of each channel made even, by a monotone map of its 256 bytes.

    Floats in 0 ... 1 are made bytes, equalized and made floats again; what lies outside
    counts as the nearest of these, NaN as 0.

    As `torchvision.transforms.v2.functional.equalize`, for images of any channels.
    float16 and bfloat16 are made bytes in float32, where torchvision rounds 1 to 0.

    Examples:
        >>> image = np.repeat(np.uint8([10, 11, 12]), 200).reshape(20, 30)
        >>> loader = EchoLoader([image], batch_size=1, transform=[T.Equalize()])
        >>> next(iter(loader))[0][::7, 0].tolist()
        [0, 200, 255]
    """

    def _add(self, chain: Chain) -> None:
        settings = {"p": self._chance, "integer": _is_integer(chain)}
        chain.change("equalize", settings, statistic=True)


@dataclass(frozen=True, eq=False)
class RandomEqualize(_AtChance, Equalize):
    """`Equalize`, with a probability.

    Args:
        p: the probability.

    As `torchvision.transforms.v2.RandomEqualize`.

    Examples:
        >>> image = np.repeat(np.uint8([10, 11, 12]), 200).reshape(20, 30)
        >>> chain = [T.RandomEqualize(p=0.5)]
        >>> loader = EchoLoader(
        ...     [image] * 3, batch_size=3, factor=1, seed=5, transform=chain
        ... )
        >>> next(iter(loader))[:, ::7, 0].tolist()
        [[0, 200, 255], [0, 200, 255], [10, 11, 12]]
    """


def _one_or_three(owner: Operation, name: str, value: Any) -> int:
    channels = arguments.integer(owner, name, value, 1, 3)
    if channels == 2:
        raise owner.refusal(name, value, "1 or 3")
    return channels


@dataclass(frozen=True, eq=False)
class Grayscale(_Tone):
    """Colours made grey: 0.2989 red + 0.587 green + 0.114 blue, for 1 or 3 channels.

    Args:
        num_output_channels: 1, or 3 equal ones. The axes stay: [H, W, 3] becomes
            [H, W, 1].

    As `torchvision.transforms.v2.Grayscale`.

    Examples:
        >>> image = np.full((1, 1, 3), [200, 100, 50], np.uint8)
        >>> loader = EchoLoader([image], batch_size=1, transform=[T.Grayscale(3)])
        >>> next(iter(loader))[0]
        array([[[124, 124, 124]]], dtype=uint8)
    """

    num_output_channels: int = 1
    _of_colours = True
    _arguments = arguments.checks(num_output_channels=_one_or_three)

    def _add(self, chain: Chain) -> None:
        made = self._value("num_output_channels")
        if chain.order in ("HW", "THW") and made == 3:
            raise chain.refusal("makes 3 channels: put ToChannelFirst() before it")
        _add_grey(chain, self._chance, made)


@dataclass(frozen=True, eq=False)
class RandomGrayscale(_AtChance):
    """Colours made grey with a probability, in as many channels: 1 or 3.

    Args:
        p: the probability.

    As `torchvision.transforms.v2.RandomGrayscale`; see `Grayscale`.

    Examples:
        >>> image = np.full((1, 1, 3), [200, 100, 50], np.uint8)
        >>> chain = [T.RandomGrayscale(p=0.5)]
        >>> loader = EchoLoader(
        ...     [image] * 3, batch_size=3, factor=1, seed=5, transform=chain
        ... )
        >>> next(iter(loader))[:, 0, 0].tolist()
        [[124, 124, 124], [124, 124, 124], [200, 100, 50]]
    """

    p: float = 0.1
    _of_colours = True

    def _add(self, chain: Chain) -> None:
        _add_grey(chain, self._chance, chain.extent[2])


def _add_grey(chain: Chain, p: float, made: int) -> None:
    channels = chain.extent[2]
    if channels == made == 1:
        return
    settings = {"p": p, "from": channels, "to": made, "integer": _is_integer(chain)}
    chain.recolour("grey", settings, made)


def add_solarize(chain: Chain, p: float, thresholds: list[float]) -> None:
    """Add a solarization, whose threshold is one of some, with a probability."""
    white = dtypes.largest(chain.dtype)
    for threshold in thresholds:
        if threshold > white:
            raise chain.refusal(
                f"has the threshold {threshold}; {chain.dtype} has {white} at most"
            )
    if not dtypes.is_integer(chain.dtype):
        with np.errstate(over="ignore"):
            rounded = np.asarray(thresholds).astype(chain.dtype)
        thresholds = [float(threshold) for threshold in rounded]
    settings = {"p": p, "white": white, "thresholds": (thresholds, False)}
    chain.change("solarize", settings)


def add_posterize(chain: Chain, p: float, bits: list[int]) -> None:
    """Add a posterization, whose bits are one of some, with a probability."""
    settings = {"p": p, "integer": _is_integer(chain), "bits": (bits, False)}
    chain.change("posterize", settings)
