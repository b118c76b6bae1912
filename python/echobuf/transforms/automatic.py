"""Augmentations by policies: operations and strengths that chance chooses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.transforms import arguments
from echobuf.transforms.chain import Chain
from echobuf.transforms.choices import RandomApply, RandomChoice
from echobuf.transforms.graded import (
    GradedColor,
    GradedPosterize,
    GradedSharpness,
    GradedSolarize,
    GradedWarp,
    Levels,
    evenly,
)
from echobuf.transforms.operation import Operation
from echobuf.transforms.resampling import warp_mode
from echobuf.transforms.tones import AutoContrast, Equalize, Invert

__all__ = ["AutoAugment", "RandAugment", "TrivialAugmentWide"]

Part = tuple[str, float, int | None]  # operation, probability, level

# Tables 7 to 9 of "AutoAugment". A level is one of ten, 0 the weakest; None: the
# operation has none.
POLICIES: dict[str, tuple[tuple[Part, Part], ...]] = {
    "imagenet": (
        (("Posterize", 0.4, 8), ("Rotate", 0.6, 9)),
        (("Solarize", 0.6, 5), ("AutoContrast", 0.6, None)),
        (("Equalize", 0.8, None), ("Equalize", 0.6, None)),
        (("Posterize", 0.6, 7), ("Posterize", 0.6, 6)),
        (("Equalize", 0.4, None), ("Solarize", 0.2, 4)),
        (("Equalize", 0.4, None), ("Rotate", 0.8, 8)),
        (("Solarize", 0.6, 3), ("Equalize", 0.6, None)),
        (("Posterize", 0.8, 5), ("Equalize", 1.0, None)),
        (("Rotate", 0.2, 3), ("Solarize", 0.6, 8)),
        (("Equalize", 0.6, None), ("Posterize", 0.4, 6)),
        (("Rotate", 0.8, 8), ("Color", 0.4, 0)),
        (("Rotate", 0.4, 9), ("Equalize", 0.6, None)),
        (("Equalize", 0.0, None), ("Equalize", 0.8, None)),
        (("Invert", 0.6, None), ("Equalize", 1.0, None)),
        (("Color", 0.6, 4), ("Contrast", 1.0, 8)),
        (("Rotate", 0.8, 8), ("Color", 1.0, 2)),
        (("Color", 0.8, 8), ("Solarize", 0.8, 7)),
        (("Sharpness", 0.4, 7), ("Invert", 0.6, None)),
        (("ShearX", 0.6, 5), ("Equalize", 1.0, None)),
        (("Color", 0.4, 0), ("Equalize", 0.6, None)),
        (("Equalize", 0.4, None), ("Solarize", 0.2, 4)),
        (("Solarize", 0.6, 5), ("AutoContrast", 0.6, None)),
        (("Invert", 0.6, None), ("Equalize", 1.0, None)),
        (("Color", 0.6, 4), ("Contrast", 1.0, 8)),
        (("Equalize", 0.8, None), ("Equalize", 0.6, None)),
    ),
    "cifar10": (
        (("Invert", 0.1, None), ("Contrast", 0.2, 6)),
        (("Rotate", 0.7, 2), ("TranslateX", 0.3, 9)),
        (("Sharpness", 0.8, 1), ("Sharpness", 0.9, 3)),
        (("ShearY", 0.5, 8), ("TranslateY", 0.7, 9)),
        (("AutoContrast", 0.5, None), ("Equalize", 0.9, None)),
        (("ShearY", 0.2, 7), ("Posterize", 0.3, 7)),
        (("Color", 0.4, 3), ("Brightness", 0.6, 7)),
        (("Sharpness", 0.3, 9), ("Brightness", 0.7, 9)),
        (("Equalize", 0.6, None), ("Equalize", 0.5, None)),
        (("Contrast", 0.6, 7), ("Sharpness", 0.6, 5)),
        (("Color", 0.7, 7), ("TranslateX", 0.5, 8)),
        (("Equalize", 0.3, None), ("AutoContrast", 0.4, None)),
        (("TranslateY", 0.4, 3), ("Sharpness", 0.2, 6)),
        (("Brightness", 0.9, 6), ("Color", 0.2, 8)),
        (("Solarize", 0.5, 2), ("Invert", 0.0, None)),
        (("Equalize", 0.2, None), ("AutoContrast", 0.6, None)),
        (("Equalize", 0.2, None), ("Equalize", 0.6, None)),
        (("Color", 0.9, 9), ("Equalize", 0.6, None)),
        (("AutoContrast", 0.8, None), ("Solarize", 0.2, 8)),
        (("Brightness", 0.1, 3), ("Color", 0.7, 0)),
        (("Solarize", 0.4, 5), ("AutoContrast", 0.9, None)),
        (("TranslateY", 0.9, 9), ("TranslateY", 0.7, 9)),
        (("AutoContrast", 0.9, None), ("Solarize", 0.8, 3)),
        (("Equalize", 0.8, None), ("Invert", 0.1, None)),
        (("TranslateY", 0.7, 9), ("AutoContrast", 0.9, None)),
    ),
    "svhn": (
        (("ShearX", 0.9, 4), ("Invert", 0.2, None)),
        (("ShearY", 0.9, 8), ("Invert", 0.7, None)),
        (("Equalize", 0.6, None), ("Solarize", 0.6, 6)),
        (("Invert", 0.9, None), ("Equalize", 0.6, None)),
        (("Equalize", 0.6, None), ("Rotate", 0.9, 3)),
        (("ShearX", 0.9, 4), ("AutoContrast", 0.8, None)),
        (("ShearY", 0.9, 8), ("Invert", 0.4, None)),
        (("ShearY", 0.9, 5), ("Solarize", 0.2, 6)),
        (("Invert", 0.9, None), ("AutoContrast", 0.8, None)),
        (("Equalize", 0.6, None), ("Rotate", 0.9, 3)),
        (("ShearX", 0.9, 4), ("Solarize", 0.3, 3)),
        (("ShearY", 0.8, 8), ("Invert", 0.7, None)),
        (("Equalize", 0.9, None), ("TranslateY", 0.6, 6)),
        (("Invert", 0.9, None), ("Equalize", 0.6, None)),
        (("Contrast", 0.3, 3), ("Rotate", 0.8, 4)),
        (("Invert", 0.8, None), ("TranslateY", 0.0, 2)),
        (("ShearY", 0.7, 6), ("Solarize", 0.4, 8)),
        (("Invert", 0.6, None), ("Rotate", 0.8, 4)),
        (("ShearY", 0.3, 7), ("TranslateX", 0.9, 3)),
        (("ShearX", 0.1, 6), ("Invert", 0.6, None)),
        (("Solarize", 0.7, 2), ("TranslateY", 0.6, 7)),
        (("ShearY", 0.8, 4), ("Invert", 0.8, None)),
        (("ShearX", 0.7, 9), ("TranslateY", 0.8, 3)),
        (("ShearY", 0.8, 5), ("AutoContrast", 0.7, None)),
        (("ShearX", 0.7, 2), ("Invert", 0.1, None)),
    ),
}


Pick = Callable[[Levels], Levels]

_MOST_OPERATIONS = 16
_MOST_BINS = 1000
_POLICY_BINS = 10  # levels of an operation that a policy of AutoAugment numbers
_COLOURS = {"Brightness": "brightness", "Color": "color", "Contrast": "contrast"}
_WARPS = {
    "ShearX": "shear_x",
    "ShearY": "shear_y",
    "TranslateX": "translate_x",
    "TranslateY": "translate_y",
    "Rotate": "rotate",
}
_PLAIN: dict[str, Callable[[], Operation]] = {
    "AutoContrast": AutoContrast,
    "Equalize": Equalize,
    "Invert": Invert,
}


@dataclass(frozen=True)
class _Space:
    """How strong operations are at most, and how many levels each one has."""

    bins: int  # levels
    shear: float = 0.3  # columns a row
    # Pixels; None: 150 / 331 of the image's width and height
    shift: float | None = None
    degrees: float = 30.0  # of rotations
    factor: float = 0.9  # of colour and sharpness, away from 1
    bits: int = 4  # that posterizing takes away

    def operation(self, name: str, pick: Pick, how: str, fill: Any) -> Operation:
        """Return an operation with those of its levels that `pick` takes."""
        if name in _PLAIN:
            return _PLAIN[name]()
        if name == "Posterize":
            return GradedPosterize(pick(self._posterized()))
        if name == "Solarize":
            return GradedSolarize(pick(evenly(1.0, 0.0, self.bins)))
        if name == "Sharpness":
            return GradedSharpness(pick(evenly(0.0, self.factor, self.bins)))
        if name in _COLOURS:
            levels = pick(evenly(0.0, self.factor, self.bins))
            return GradedColor(levels, _COLOURS[name])
        return GradedWarp(self._warped(name, pick), _WARPS[name], True, how, fill)

    def _posterized(self) -> Levels:
        steps = np.arange(self.bins, dtype=np.float32)
        taken = steps / np.float32((self.bins - 1) / self.bits)
        return tuple(float(x) for x in np.round(np.float32(8) - taken))

    def _warped(self, name: str, pick: Pick) -> Any:
        if not name.startswith("Translate"):
            most = self.degrees if name == "Rotate" else self.shear
            return pick(evenly(0.0, most, self.bins))
        if self.shift is not None:
            return pick(evenly(0.0, self.shift, self.bins))

        def shifts(height: int, width: int) -> Levels:
            side = width if name == "TranslateX" else height
            return pick(evenly(0.0, 150.0 / 331.0 * side, self.bins))

        return shifts


_ALL = (*_WARPS, *_COLOURS, "Sharpness", "Posterize", "Solarize")
_SPACE = (*_ALL, "AutoContrast", "Equalize")


class Automatic(Operation):
    """The base of augmentations by policies, for 1 or 3 channels.

    Each runs the operations that chance chooses for a draw, one after another; the
    choices are containers inside of it, and take their random words.
    """

    interpolation: Any
    fill: Any
    _inside: tuple[Operation, ...]

    _arguments = arguments.checks(
        interpolation=warp_mode, fill=arguments.optional(arguments.numbers_of)
    )

    def _check(self) -> None:
        object.__setattr__(self, "_inside", tuple(self._make()))

    @property
    def branches(self) -> tuple[tuple[Operation, ...], ...]:
        """The one branch, which is carried out at each draw."""
        return (self._inside,)

    def add_to(self, chain: Chain) -> None:
        chain.image()
        chain.computes()
        chain.colours()
        assert chain.place is not None
        named, chain.named = chain.named, chain.named or self
        for place in chain.place.branches[0]:
            chain.add(place, chain.index)
        chain.named = named

    @abstractmethod
    def _make(self) -> Iterable[Operation]:
        """Make the operations inside."""

    def _operation(self, space: _Space, name: str, pick: Pick) -> Operation:
        return space.operation(name, pick, self._value("interpolation"), self.fill)

    def _one_of(self, space: _Space, pick: Pick) -> RandomChoice:
        """Return the choice of one of fourteen operations: one of them does nothing."""
        made = [self._operation(space, name, pick) for name in _SPACE]
        return RandomChoice([[], *made])


@dataclass(frozen=True, eq=False)
class RandAugment(Automatic):
    """Several of fourteen operations, all of one strength.

    Args:
        num_ops: how many, one after another; the same may come again.
        magnitude: the strength: a level, from 0 on.
        num_magnitude_bins: the levels that there are; level 0 changes nothing.
        interpolation: of shears, translations and rotations: "nearest" or "bilinear".
        fill: the value outside of the image: a number, or one for each channel; None
            is 0, which then darkens the bilinear pixels at the edge once, not twice.

    As `torchvision.transforms.v2.RandAugment`: identity, shears, translations,
    rotation, brightness, colour, contrast, sharpness, posterize, solarize,
    autocontrast and equalize, uniformly; the signs of those that have one are drawn.
    Images are uint8, or floats in 0 ... 1. Source: E. D. Cubuk et al., "RandAugment"
    (arXiv:1909.13719).

    Examples:
        >>> image = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
        >>> chain = [
        ...     T.RandAugment(num_ops=2, magnitude=9),
        ...     T.ToDtype(np.float32, scale=True),
        ... ]
        >>> loader = EchoLoader([image] * 4, batch_size=4, factor=1, transform=chain)
        >>> batch = next(iter(loader))
        >>> batch.shape, batch.dtype
        ((4, 8, 8, 3), dtype('float32'))
        >>> len({image.tobytes() for image in batch}) > 1
        True
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: Any = None
    _arguments = arguments.checks(
        num_ops=arguments.integers(0, _MOST_OPERATIONS),
        num_magnitude_bins=arguments.integers(2, _MOST_BINS),
    )

    def _make(self) -> Iterable[Operation]:
        bins = self._value("num_magnitude_bins")
        level = arguments.integer(self, "magnitude", self.magnitude, 0, bins - 1)
        space = _Space(bins)
        times = range(self._value("num_ops"))
        return [self._one_of(space, lambda all_: (all_[level],)) for _ in times]


@dataclass(frozen=True, eq=False)
class TrivialAugmentWide(Automatic):
    """One of fourteen operations, of any strength.

    Args:
        num_magnitude_bins: the levels of strength, 2 to 31, each as likely.
        interpolation: of shears, translations and rotations: "nearest" or "bilinear".
        fill: the value outside of the image: a number, or one for each channel; None
            is 0, which then darkens the bilinear pixels at the edge once, not twice.

    As `torchvision.transforms.v2.TrivialAugmentWide`: the operations of `RandAugment`,
    stronger. Images are uint8, or floats in 0 ... 1. Source: S. G. Müller and F.
    Hutter, "TrivialAugment" (arXiv:2103.10158).

    Examples:
        >>> image = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
        >>> chain = [T.TrivialAugmentWide(), T.ToDtype(np.float32, scale=True)]
        >>> loader = EchoLoader([image] * 4, batch_size=4, factor=1, transform=chain)
        >>> batch = next(iter(loader))
        >>> batch.shape, batch.dtype
        ((4, 8, 8, 3), dtype('float32'))
        >>> len({image.tobytes() for image in batch}) > 1
        True
    """

    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: Any = None
    _arguments = arguments.checks(
        num_magnitude_bins=arguments.integers(2, _core.MOST_LEVELS)
    )

    def _make(self) -> Iterable[Operation]:
        bins = self._value("num_magnitude_bins")
        wide = _Space(bins, shear=0.99, shift=32.0, degrees=135.0, factor=0.99, bits=6)
        return [self._one_of(wide, lambda all_: all_)]


@dataclass(frozen=True, eq=False)
class AutoAugment(Automatic):
    """One of 25 pairs of operations, which were found by reinforcement learning.

    Args:
        policy: "imagenet", "cifar10" or "svhn": the data for which they were found.
        interpolation: of shears, translations and rotations: "nearest" or "bilinear".
        fill: the value outside of the image: a number, or one for each channel; None
            is 0, which then darkens the bilinear pixels at the edge once, not twice.

    As `torchvision.transforms.v2.AutoAugment`: each operation of the pair has a
    probability and a strength; the signs of those that have one are drawn. Images are
    uint8, or floats in 0 ... 1. Source: E. D. Cubuk et al., "AutoAugment"
    (arXiv:1805.09501).

    Examples:
        >>> image = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
        >>> chain = [T.AutoAugment("cifar10"), T.ToDtype(np.float32, scale=True)]
        >>> loader = EchoLoader([image] * 4, batch_size=4, factor=1, transform=chain)
        >>> batch = next(iter(loader))
        >>> batch.shape, batch.dtype
        ((4, 8, 8, 3), dtype('float32'))
        >>> len({image.tobytes() for image in batch}) > 1
        True
    """

    policy: Any = "imagenet"
    interpolation: Any = "nearest"
    fill: Any = None
    _arguments = arguments.checks(policy=arguments.one_of(*POLICIES))

    def _make(self) -> Iterable[Operation]:
        policy = self._value("policy")
        object.__setattr__(self, "policy", policy)  # of torchvision's enum
        space = _Space(_POLICY_BINS)
        pairs = [
            [self._at_chance(space, *parts) for parts in pair]
            for pair in POLICIES[policy]
        ]
        return [RandomChoice(pairs)]

    def _at_chance(
        self, space: _Space, name: str, p: float, level: int | None
    ) -> RandomApply:
        def pick(levels: Levels) -> Levels:
            assert level is not None  # those without levels ask for none
            return (levels[level],)

        return RandomApply([self._operation(space, name, pick)], p)
