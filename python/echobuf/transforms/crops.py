"""Operations that move pixels of images: crops and flips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from echobuf.transforms import arguments
from echobuf.transforms.chain import Chain
from echobuf.transforms.leaf import MOST_NUMBERS
from echobuf.transforms.operation import Alternating, AlternatingFlip, Operation

__all__ = [
    "CenterCrop",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
]

_BORDERS = ("constant", "edge", "reflect", "symmetric")
_mode = arguments.one_of(*_BORDERS)


def _sides(owner: Operation, name: str, padding: Any) -> tuple[int, int, int, int]:
    """Return the border on the left, at the top, on the right and at the bottom."""
    given = padding if arguments.is_sequence(padding) else [padding]
    if len(given) not in (1, 2, 4):
        raise owner.refusal(name, padding, "1, 2 or 4 ints")
    values = [arguments.integer(owner, name, value, 0, MOST_NUMBERS) for value in given]
    left, top, right, bottom = (values * 4)[:4] if len(values) < 4 else values
    return left, top, right, bottom


def _check_fill(owner: Operation, fill: Any, mode: str) -> None:
    values = arguments.numbers_of(owner, "fill", fill)
    if mode != "constant" and len(values) > 1:
        raise owner.refusal("fill", fill, f"one number with {mode!r}")


@dataclass(frozen=True, eq=False, repr=False)
class RandomCrop(Alternating):
    """A window of an image, anywhere in it.

    Args:
        size: height and width; an int is both.
        padding: pixels of border put around the image first: one number, (left and
            right, top and bottom), or (left, top, right, bottom).
        pad_if_needed: put a border around an image that is smaller than the window.
        fill: the value of a constant border: a number, or one for each channel. Of
            integers its fraction is cut off.
        padding_mode: "constant", "edge" (the outermost pixel again), "reflect" (the
            image mirrored, without its outermost pixel) or "symmetric" (with it).
        alternate: draw one window for two uses of an example in an epoch, mirrored
            about the middle at the second: as far from the right and bottom edge as the
            first is from the left and top. Otherwise uses are independent.

    As `torchvision.transforms.v2.RandomCrop`, but for `alternate`.

    Examples:
        >>> image = np.arange(16, dtype=np.uint8).reshape(4, 4)
        >>> chain = [T.RandomCrop(2)]
        >>> loader = EchoLoader(
        ...     [image] * 2, batch_size=2, factor=1, seed=1, transform=chain
        ... )
        >>> next(iter(loader)).tolist()
        [[[9, 10], [13, 14]], [[0, 1], [4, 5]]]
    """

    size: Any
    padding: Any = None
    pad_if_needed: bool = False
    fill: Any = 0
    padding_mode: Any = "constant"
    _arguments = arguments.checks(
        size=arguments.size,
        padding=arguments.optional(_sides),
        pad_if_needed=arguments.flag,
        fill=arguments.numbers_of,
        padding_mode=_mode,
    )

    def _check(self) -> None:
        _check_fill(self, self.fill, self._value("padding_mode"))

    def add_to(self, chain: Chain) -> None:
        height, width, _ = chain.image()
        rows, columns = self._value("size")
        left, top, right, bottom = self._value("padding") or (0, 0, 0, 0)
        if self.pad_if_needed:
            lacking = max(0, rows - height - top - bottom)
            top, bottom = top + lacking, bottom + lacking
            lacking = max(0, columns - width - left - right)
            left, right = left + lacking, right + lacking
        chain.within(height + top + bottom, width + left + right)
        down = height + top + bottom - rows
        across = width + left + right - columns
        if down < 0 or across < 0:
            raise chain.refusal(
                f"is larger than the image with its padding, {height + top + bottom} x "
                f"{width + left + right}: use `padding` or `pad_if_needed=True`"
            )
        sides = left, top, right, bottom
        _add_bordered(chain, self, sides, (rows, columns), (down + 1, across + 1))


@dataclass(frozen=True, eq=False)
class Pad(Operation):
    """An image with a border around it.

    Args:
        padding: its pixels: one number, (left and right, top and bottom), or (left,
            top, right, bottom).
        fill: the value of a constant border: a number, or one for each channel. Of
            integers its fraction is cut off. A mask has the `fill` of its `Mask`.
        padding_mode: "constant", "edge" (the outermost pixel again), "reflect" (the
            image mirrored, without its outermost pixel) or "symmetric" (with it).

    As `torchvision.transforms.v2.Pad`, for images of any dtype; no padding is negative.

    Examples:
        >>> image = np.array([[1, 2], [3, 4]], np.uint8)
        >>> loader = EchoLoader([image], batch_size=1, transform=[T.Pad(1, fill=9)])
        >>> next(iter(loader))[0]
        array([[9, 9, 9, 9],
               [9, 1, 2, 9],
               [9, 3, 4, 9],
               [9, 9, 9, 9]], dtype=uint8)
    """

    padding: Any
    fill: Any = 0
    padding_mode: Any = "constant"
    _arguments = arguments.checks(
        padding=_sides, fill=arguments.numbers_of, padding_mode=_mode
    )

    def _check(self) -> None:
        _check_fill(self, self.fill, self._value("padding_mode"))

    def add_to(self, chain: Chain) -> None:
        height, width, _ = chain.image()
        left, top, right, bottom = self._value("padding")
        size = (height + top + bottom, width + left + right)
        chain.within(*size)
        _add_bordered(chain, self, (left, top, right, bottom), size, (1, 1))


@dataclass(frozen=True, eq=False)
class CenterCrop(Operation):
    """The window in the middle of an image.

    Args:
        size: height and width; an int is both. Not larger than the image.

    As `torchvision.transforms.v2.CenterCrop`, which makes an image that is too small
    larger with zeros: use `RandomCrop(pad_if_needed=True)` for that.

    Examples:
        >>> image = np.arange(16, dtype=np.uint8).reshape(4, 4)
        >>> loader = EchoLoader([image], batch_size=1, transform=[T.CenterCrop(2)])
        >>> next(iter(loader))[0]
        array([[ 5,  6],
               [ 9, 10]], dtype=uint8)
    """

    size: Any
    _arguments = arguments.checks(size=arguments.size)

    def add_to(self, chain: Chain) -> None:
        height, width, _ = chain.image()
        rows, columns = self._value("size")
        if rows > height or columns > width:
            raise chain.refusal("is larger than the image")
        first = (round((height - rows) / 2), round((width - columns) / 2))
        add_crop(chain, (rows, columns), first, (1, 1))


@dataclass(frozen=True, eq=False, repr=False)
class _Flip(AlternatingFlip):
    """The base of both flips."""

    p: float = 0.5
    _axis: ClassVar[int]
    _arguments = arguments.checks(p=arguments.probability)

    def _check(self) -> None:
        if self.alternate and self.p != 0.5:
            raise self.refusal(
                "p", self.p, "0.5, the default, with `alternate=True`: every second"
            )

    def add_to(self, chain: Chain) -> None:
        extent = chain.image()
        settings = {"in": extent, "axis": self._axis, "p": float(self.p)}
        chain.move("flip", settings, extent)


@dataclass(frozen=True, eq=False, repr=False)
class RandomHorizontalFlip(_Flip):
    """Images mirrored left to right, with a probability.

    Args:
        p: the probability.
        alternate: mirror an example in every second of its uses in an epoch, by chance
            the first or the second of them; `p` is 0.5 then. Otherwise uses are
            independent.

    Source of `alternate`: K. Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU"
    (arXiv:2404.00498), where epochs alternate; here the uses within an epoch do.

    Examples:
        >>> row = np.array([[1, 2, 3]], np.uint8)
        >>> chain = [T.RandomHorizontalFlip()]
        >>> loader = EchoLoader([row] * 4, batch_size=4, factor=1, transform=chain)
        >>> next(iter(loader))[:, 0].tolist()
        [[1, 2, 3], [1, 2, 3], [1, 2, 3], [3, 2, 1]]
    """

    _axis = 1


@dataclass(frozen=True, eq=False, repr=False)
class RandomVerticalFlip(_Flip):
    """Images mirrored top to bottom, with a probability.

    Args:
        p: the probability.
        alternate: mirror an example in every second of its uses in an epoch, by chance
            the first or the second of them; `p` is 0.5 then. Otherwise uses are
            independent.

    Examples:
        >>> column = np.array([[1], [2], [3]], np.uint8)
        >>> chain = [T.RandomVerticalFlip()]
        >>> loader = EchoLoader([column] * 4, batch_size=4, factor=1, transform=chain)
        >>> next(iter(loader))[:, :, 0].tolist()
        [[1, 2, 3], [1, 2, 3], [1, 2, 3], [3, 2, 1]]
    """

    _axis = 0


def _check_border(chain: Chain, mode: str, rows: int, columns: int) -> None:
    height, width, _ = chain.extent
    spare = {"reflect": 1, "symmetric": 0}.get(mode)
    if spare is None or (rows <= height - spare and columns <= width - spare):
        return
    raise chain.refusal(
        f"has a border of {rows} rows and {columns} columns, but {mode!r} has "
        f"{height - spare} and {width - spare} at most"
    )


def _add_bordered(
    chain: Chain,
    owner: RandomCrop | Pad,
    sides: tuple[int, int, int, int],
    size: tuple[int, int],
    places: tuple[int, int],
) -> None:
    """Add a window of an image with a border on its four sides."""
    left, top, right, bottom = sides
    mode = _mode(owner, "padding_mode", owner.padding_mode)
    _check_border(chain, mode, max(top, bottom), max(left, right))
    fills = mode == "constant" and max(sides) > 0
    add_crop(
        chain,
        size,
        (-top, -left),
        places,
        border=_BORDERS.index(mode),
        fill=filling(owner, chain, owner.fill) if fills else None,
        fills=fills,
    )


def add_crop(
    chain: Chain,
    size: tuple[int, int],
    first: tuple[int, int],
    places: tuple[int, int],
    *,
    border: int = 1,
    columns_first: bool = False,
    fill: list[float] | None = None,
    fills: bool = False,
) -> None:
    """Add a window, at one of `places` from `first` on."""
    settings = {
        "in": chain.extent,
        "height": size[0],
        "width": size[1],
        "top": first[0],
        "left": first[1],
        "tops": places[0],
        "lefts": places[1],
        "border": border if fills or border else 1,
        "columns_first": int(columns_first),
        "fill": fill or [0.0],
        "fills": fills,
    }
    chain.move("crop", settings, (*size, chain.extent[2]), fills=fills)


def filling(
    owner: Operation, chain: Chain, fill: Any, *, rounds: bool = False
) -> list[float]:
    """Return the fill of each channel, as numbers of the leaf's type; see `fitting`."""
    given = fill if chain.mask_fill is None else chain.mask_fill
    values = chain.for_channels("fill", arguments.numbers_of(owner, "fill", given))
    return [chain.fitting(owner, "fill", value, rounds=rounds) for value in values]
