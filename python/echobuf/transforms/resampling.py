"""Operations that make pixels of several: resizing, affine maps, perspective."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from echobuf.transforms import arguments
from echobuf.transforms.arguments import Pair
from echobuf.transforms.chain import Chain
from echobuf.transforms.crops import filling
from echobuf.transforms.operation import Alternating, Operation

__all__ = [
    "RandomAffine",
    "RandomPerspective",
    "RandomResizedCrop",
    "RandomRotation",
    "Resize",
]

_CROP_MODES = ("bilinear", "bicubic", "nearest")
_RESIZE_MODES = ("bilinear", "bicubic", "nearest", "nearest-exact")
_FILTERS = {"bilinear": 0, "bicubic": 1}  # as in `echobuf/transform/filter.hpp`


@dataclass(frozen=True, eq=False)
class Resize(Operation):
    """Images resized to another size.

    Args:
        size: height and width; an int is the smaller of both, the shape staying.
        interpolation: "bilinear", "bicubic", "nearest" or "nearest-exact".
        max_size: the most that the larger one may be, where `size` is an int.
        antialias: with "bilinear" and "bicubic", average all pixels that a smaller one
            covers.

    As `torchvision.transforms.v2.Resize`; uint8 by up to 1 otherwise, since numbers
    are rounded once, not twice (and "bicubic" uint8 brought to 0 ... 255 once).

    Examples:
        >>> image = np.array([[0, 0, 90, 90]], np.uint8)
        >>> loader = EchoLoader([image], batch_size=1, transform=[T.Resize((1, 2))])
        >>> next(iter(loader))[0]
        array([[13, 77]], dtype=uint8)
    """

    size: Any
    interpolation: Any = "bilinear"
    max_size: int | None = None
    antialias: bool = True
    _arguments = arguments.checks(
        size=arguments.size,
        interpolation=arguments.one_of(*_RESIZE_MODES),
        antialias=arguments.flag,
    )

    def _check(self) -> None:
        if self.max_size is None:
            return
        if arguments.is_sequence(self.size) and len(self.size) == 2:
            raise self.refusal(
                "max_size", self.max_size, "None with a height and width"
            )
        arguments.integer(self, "max_size", self.max_size, self._value("size")[0] + 1)

    def add_to(self, chain: Chain) -> None:
        height, width, channels = chain.image()
        rows, columns = self._result(height, width)
        if (rows, columns) == (height, width):
            return
        how = self._value("interpolation")
        if how not in _FILTERS or chain.is_mask:
            settings = _sized(chain, (rows, columns))
            settings["centred"] = int(how == "nearest-exact")
            chain.move("nearest", settings, (rows, columns, channels))
        else:
            _add_resample(chain, (rows, columns), how, self.antialias)

    def _result(self, height: int, width: int) -> tuple[int, int]:
        size: tuple[int, int] = self._value("size")
        if arguments.is_sequence(self.size) and len(self.size) == 2:
            return size
        small, _ = size
        short, long = sorted((height, width))
        large = small * long // short
        if self.max_size is not None and large > self.max_size:
            small, large = self.max_size * small // large, self.max_size
        small = max(small, 1)
        return (small, large) if height <= width else (large, small)


@dataclass(frozen=True, eq=False, repr=False)
class RandomResizedCrop(Alternating):
    """A window of any place, size and shape, made of one size.

    Args:
        size: height and width of the result; an int is both.
        scale: the window's share of the image's area, least and most.
        ratio: the window's width over its height, least and most.
        interpolation: "bilinear", "bicubic" or "nearest".
        antialias: as in `Resize`.
        alternate: draw one window for two uses of an example in an epoch, mirrored
            about the middle of the image at the second, its size and shape the same.
            Otherwise uses are independent.

    As `torchvision.transforms.v2.RandomResizedCrop`, but for `alternate`. Source: C.
    Szegedy et al., "Going deeper with convolutions" (arXiv:1409.4842), section 6.

    Examples:
        >>> image = np.zeros((64, 80, 3), np.uint8)
        >>> chain = [T.RandomResizedCrop(32, scale=(0.5, 1.0))]
        >>> next(iter(EchoLoader([image] * 4, batch_size=4, transform=chain))).shape
        (4, 32, 32, 3)
    """

    size: Any
    scale: Any = (0.08, 1.0)
    ratio: Any = (3 / 4, 4 / 3)
    interpolation: Any = "bilinear"
    antialias: bool = True
    _arguments = arguments.checks(
        size=arguments.size,
        scale=arguments.pairs(0.0),
        ratio=arguments.ratio,
        interpolation=arguments.one_of(*_CROP_MODES),
        antialias=arguments.flag,
    )

    def add_to(self, chain: Chain) -> None:
        _, _, channels = chain.image()
        size: tuple[int, int] = self._value("size")
        window = {
            "scale": list(self._value("scale")),
            "ratio": [math.log(bound) for bound in self._value("ratio")],
        }
        how = self._value("interpolation")
        if how == "nearest" or chain.is_mask:
            settings = {**_sized(chain, size), **window}
            chain.move("nearest_window", settings, (*size, channels))
        else:
            _add_resample(chain, size, how, self.antialias, window)


def _sized(chain: Chain, size: tuple[int, int]) -> dict[str, Any]:
    return {"in": chain.extent, "height": size[0], "width": size[1]}


def _add_resample(
    chain: Chain,
    size: tuple[int, int],
    how: str,
    antialias: bool,
    window: dict[str, list[float]] | None = None,
) -> None:
    """Add bilinear or bicubic resizing, of a window if one is given."""
    chain.computes()
    settings = {
        **_sized(chain, size),
        "antialias": int(antialias),
        "windowed": int(window is not None),
        **(window or {"scale": [1.0, 1.0], "ratio": [0.0, 0.0]}),
        "filter": _FILTERS[how],
    }
    chain.resample("resample", settings, (*size, chain.extent[2]), "half up")


warp_mode = arguments.one_of("nearest", "bilinear")
_MOST_DEGREES = 1e6


def _degrees(owner: Operation, name: str, value: Any) -> Pair:
    low, high = arguments.range_around(owner, name, value)
    if max(abs(low), abs(high)) > _MOST_DEGREES:
        raise owner.refusal(name, value, f"degrees up to {_MOST_DEGREES:g}")
    return low, high


def _no_expansion(owner: Operation, name: str, value: Any) -> None:
    if value is not False:
        raise owner.refusal(name, value, "False: all images of a batch are of one size")


def _two(owner: Operation, name: str, value: Any, *bounds: float) -> Pair:
    if not arguments.is_sequence(value) or len(value) != 2:
        raise owner.refusal(name, value, "a pair, for x and for y")
    x, y = (arguments.number(owner, name, each, *bounds) for each in value)
    return x, y


_center = arguments.optional(_two)


def _shares(owner: Operation, name: str, value: Any) -> Pair:
    return (0.0, 0.0) if value is None else _two(owner, name, value, 0.0, 1.0)


def _scales(owner: Operation, name: str, value: Any) -> Pair:
    if value is None:
        return 1.0, 1.0
    low, high = arguments.pair(owner, name, value)
    if low <= 0:
        raise owner.refusal(name, value, "a pair of numbers above 0")
    return low, high


def _shears(owner: Operation, name: str, value: Any) -> tuple[Pair, Pair]:
    none = (0.0, 0.0)
    if value is None:
        return none, none
    if arguments.is_sequence(value) and len(value) == 4:
        x, y = tuple(value[:2]), tuple(value[2:])
    else:
        x, y = value, none
    both = _degrees(owner, name, x), _degrees(owner, name, y)
    if max(map(abs, (*both[0], *both[1]))) >= 90:
        raise owner.refusal(name, value, "degrees below 90")
    return both


_WARP = {"interpolation": warp_mode, "center": _center, "fill": arguments.numbers_of}


@dataclass(frozen=True, eq=False, repr=False)
class RandomRotation(Alternating):
    """Images turned about a point.

    Args:
        degrees: counter-clockwise, least and most; a number x is (-x, x).
        interpolation: "nearest" or "bilinear".
        expand: False: the result is as large as the image.
        center: x and y of the point, in pixels from the top left corner; by default
            the middle.
        fill: the value outside the image: a number, or one for each channel; of uint8
            rounded to a whole one, of two the even one.
        alternate: draw one angle for two uses of an example in an epoch, mirrored about
            the middle of `degrees` at the second. Otherwise uses are independent.

    As `torchvision.transforms.v2.RandomRotation`, but for `alternate`.

    Examples:
        >>> image = np.array([[1, 2], [3, 4]], np.uint8)
        >>> loader = EchoLoader(
        ...     [image], batch_size=1, transform=[T.RandomRotation((90, 90))]
        ... )
        >>> next(iter(loader))[0]
        array([[2, 4],
               [1, 3]], dtype=uint8)
    """

    degrees: Any
    interpolation: Any = "nearest"
    expand: bool = False
    center: Any = None
    fill: Any = 0
    _arguments = arguments.checks(degrees=_degrees, expand=_no_expansion, **_WARP)

    def add_to(self, chain: Chain) -> None:
        low, high = self._value("degrees")
        _add_warp(chain, self, (-low, -high))


@dataclass(frozen=True, eq=False, repr=False)
class RandomAffine(Alternating):
    """Images turned, moved, scaled and sheared about a point.

    Args:
        degrees: clockwise, least and most; a number x is (-x, x).
        translate: the most that it is moved, as a share of width and height.
        scale: least and most; by default images are not scaled.
        shear: degrees along x, least and most; a number x is (-x, x); four numbers are
            those along x and along y.
        interpolation: "nearest" or "bilinear".
        fill: the value outside the image: a number, or one for each channel; of uint8
            rounded to a whole one, of two the even one.
        center: x and y of the point, in pixels from the top left corner; by default
            the middle.
        alternate: draw angle, translation, scale and shear for two uses of an example
            in an epoch, each mirrored about the middle of its range at the second.
            Otherwise uses are independent.

    As `torchvision.transforms.v2.RandomAffine`, but for `alternate`.

    Examples:
        >>> image = np.arange(1, 10, dtype=np.uint8).reshape(3, 3)
        >>> chain = [T.RandomAffine(degrees=0, translate=(0.34, 0.34))]
        >>> next(iter(EchoLoader([image], batch_size=1, transform=chain)))[0]
        array([[4, 5, 6],
               [7, 8, 9],
               [0, 0, 0]], dtype=uint8)
    """

    degrees: Any
    translate: Any = None
    scale: Any = None
    shear: Any = None
    interpolation: Any = "nearest"
    fill: Any = 0
    center: Any = None
    _arguments = arguments.checks(
        degrees=_degrees, translate=_shares, scale=_scales, shear=_shears, **_WARP
    )

    def add_to(self, chain: Chain) -> None:
        height, width, _ = chain.image()
        x, y = self._value("translate")
        _add_warp(
            chain,
            self,
            self._value("degrees"),
            shift=(x * width, y * height),
            scale=self._value("scale"),
            shear=self._value("shear"),
        )


def _add_warp(
    chain: Chain,
    owner: RandomRotation | RandomAffine,
    degrees: Pair,
    *,
    shift: Pair = (0.0, 0.0),
    scale: Pair = (1.0, 1.0),
    shear: tuple[Pair, Pair] = ((0.0, 0.0), (0.0, 0.0)),
) -> None:
    height, width, _ = chain.image()
    chain.computes()
    x, y = _center(owner, "center", owner.center) or (width / 2, height / 2)
    how = warp_mode(owner, "interpolation", owner.interpolation)
    settings = {
        "in": chain.extent,
        "bilinear": int(how == "bilinear" and not chain.is_mask),
        "degrees": list(degrees),
        "shift": list(shift),
        "scale": list(scale),
        "shear_x": list(shear[0]),
        "shear_y": list(shear[1]),
        "centre": [x - width / 2, y - height / 2],
        "fill": filling(owner, chain, owner.fill, rounds=True),
    }
    chain.resample("warp", settings, chain.extent, "half even")


@dataclass(frozen=True, eq=False)
class RandomPerspective(Operation):
    """Images seen from another point, with a probability.

    Each corner is moved to any place in a rectangle of pixels at that corner, and the
    image follows by the projective map that the corners define. If they lie on a line,
    the image stays as it is.

    Args:
        distortion_scale: the share of half of the image's height and width that a
            corner is moved by at most, from 0 to 1.
        p: with which probability.
        interpolation: "nearest" or "bilinear".
        fill: the value outside the image: a number, or one for each channel; of uint8
            rounded to a whole one, of two the even one.

    As `torchvision.transforms.v2.RandomPerspective`.

    Examples:
        >>> image = np.full((4, 6), 255, np.uint8)
        >>> chain = [
        ...     T.RandomPerspective(distortion_scale=0.5, p=1, interpolation="nearest")
        ... ]
        >>> loader = EchoLoader([image], batch_size=1, transform=chain)
        >>> next(iter(loader))[0] // 255
        array([[1, 1, 0, 0, 0, 0],
               [1, 1, 1, 1, 1, 0],
               [1, 1, 1, 1, 1, 0],
               [0, 0, 0, 1, 1, 1]], dtype=uint8)
    """

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: Any = "bilinear"
    fill: Any = 0
    _arguments = arguments.checks(
        distortion_scale=arguments.numbers(0.0, 1.0),
        p=arguments.probability,
        interpolation=warp_mode,
        fill=arguments.numbers_of,
    )

    def add_to(self, chain: Chain) -> None:
        height, width, _ = chain.image()
        chain.computes()
        how, share = self._value("interpolation"), self._value("distortion_scale")
        settings = {
            "in": chain.extent,
            "bilinear": int(how == "bilinear" and not chain.is_mask),
            "p": float(self.p),
            "down": int(share * (height // 2)) + 1,
            "right": int(share * (width // 2)) + 1,
            "fill": filling(self, chain, self.fill, rounds=True),
        }
        chain.resample("perspective", settings, chain.extent, "half even")
