"""Sharpness: pixels moved away from, or to, the mean of their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echobuf import _core
from echobuf.transforms import arguments, dtypes
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import OnImages

__all__ = ["RandomAdjustSharpness", "Sharpness"]

_MOST_FACTOR = 1e6
_factor = arguments.numbers(0.0, _MOST_FACTOR)


@dataclass(frozen=True, eq=False)
class Sharpness(OnImages):
    """Images made sharper, or less sharp, always.

    Args:
        factor: 0 is the mean of the pixels around, 1 the image as it is, 2 twice as
            sharp; from 0 on.

    As `torchvision.transforms.v2.functional.adjust_sharpness`, for 1 or 3 channels,
    floats in 0 ... 1. Pixels at the edge, and masks, stay as they are.

    Examples:
        >>> image = np.full((3, 5), 100, np.uint8)
        >>> image[:, 2:] = 160
        >>> loader = EchoLoader([image], batch_size=1, transform=[T.Sharpness(2.0)])
        >>> next(iter(loader))[0]
        array([[100, 100, 160, 160, 160],
               [100,  86, 174, 160, 160],
               [100, 100, 160, 160, 160]], dtype=uint8)
    """

    factor: Any
    _of_colours = True
    _arguments = arguments.checks(factor=_factor)

    def _add(self, chain: Chain) -> None:
        _add_sharpen(chain, [1.0 - self._value("factor")])


@dataclass(frozen=True, eq=False)
class RandomAdjustSharpness(OnImages):
    """Images made sharper, or less sharp, with a probability.

    Args:
        sharpness_factor: as `factor` of `Sharpness`.
        p: with which probability.

    As `torchvision.transforms.v2.RandomAdjustSharpness`, for 1 or 3 channels, floats in
    0 ... 1. Pixels at the edge, and masks, stay as they are.

    Examples:
        >>> image = np.full((3, 5), 100, np.uint8)
        >>> image[:, 2:] = 160
        >>> chain = [T.RandomAdjustSharpness(0.0, p=1)]
        >>> next(iter(EchoLoader([image], batch_size=1, transform=chain)))[0]
        array([[100, 100, 160, 160, 160],
               [100, 114, 146, 160, 160],
               [100, 100, 160, 160, 160]], dtype=uint8)
    """

    sharpness_factor: Any
    p: float = 0.5
    _of_colours = True
    _arguments = arguments.checks(sharpness_factor=_factor, p=arguments.probability)

    def _add(self, chain: Chain) -> None:
        _add_sharpen(chain, [1.0 - self._value("sharpness_factor")], p=float(self.p))


@dataclass(frozen=True, eq=False)
class GradedSharpness(OnImages):
    """Sharpness of the factor 1 + m, m being one of some levels, each as likely.

    Args:
        levels: up to 31 numbers; with `signed` of 1 at most.
        signed: m is the level or its negative, each as likely.
    """

    levels: tuple[float, ...]
    signed: bool = True

    _of_colours = True
    _arguments = arguments.checks(signed=arguments.flag)

    def _check(self) -> None:
        if not arguments.is_sequence(self.levels) or not (
            0 < len(self.levels) <= _core.MOST_LEVELS
        ):
            raise self.refusal(
                "levels", self.levels, f"1 to {_core.MOST_LEVELS} numbers"
            )
        most = 1.0 if self.signed else _MOST_FACTOR
        for level in self.levels:
            arguments.number(self, "levels", level, -1.0, most)

    def _add(self, chain: Chain) -> None:
        _add_sharpen(chain, [-float(m) for m in self.levels], either=self.signed)


def _add_sharpen(
    chain: Chain, shares: Sequence[float], *, p: float = 1.0, either: bool = False
) -> None:
    """Add sharpness.

    Args:
        chain: to which it is added.
        shares: how much of the mean there is, 1 - factor; one is drawn.
        p: with which probability.
        either: the sign of a share is drawn, too.
    """
    settings = {
        "in": chain.extent,
        "integer": int(dtypes.is_integer(chain.dtype)),
        "bound": dtypes.largest(chain.dtype),
        "p": p,
        "levels": (list(shares), either),
    }
    chain.resample("sharpen", settings, chain.extent, "no")
