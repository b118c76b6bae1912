"""Windows of sequences, and the chains of ragged leaves: of windows, or all rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from echobuf import _core
from echobuf.field import Field, row_bytes
from echobuf.transforms import arguments
from echobuf.transforms.chain import Chain
from echobuf.transforms.choices import mixes_in
from echobuf.transforms.crops import add_crop
from echobuf.transforms.lowering import Extent
from echobuf.transforms.operation import Alternating, Operation, Place, every, words_of

__all__ = ["CenterWindow", "RandomWindow"]


@dataclass(frozen=True, eq=False)
class Window(Operation):
    """The base of windows.

    Attributes:
        take: the place of the window in a ragged leaf, as the core names it.
    """

    length: int
    axis: int = 0
    take: ClassVar[str]
    _arguments = arguments.checks(
        length=arguments.integers(1), axis=arguments.integers(-1, 0)
    )

    def mask(self) -> WindowMask:
        """Return the operation for a further leaf: the rows that are no padding.

        It comes first in the chain, behind `Source` of a ragged leaf, and makes bool
        `[length]`: True for the rows of the example, which come first. Its sum is the
        length of the example in the window.
        """
        return WindowMask(self)

    @abstractmethod
    def _place(self, extent: int) -> tuple[int, int]:
        """Return the first place of the window, and how many places it has."""

    def add_to(self, chain: Chain) -> None:
        rank = len(chain.shape)
        if rank == 0:
            raise chain.refusal("is for sequences, of one axis or more")
        along = self.axis % rank
        if chain.shape[along] < self.length:
            raise chain.refusal(f"is longer than axis {self.axis}")
        first, places = self._place(chain.shape[along])
        rows, columns, _ = chain.window_extent(along)
        if along == 0 and rank > 1:
            add_crop(chain, (self.length, columns), (first, 0), (places, 1))
        else:
            # Choose the same window as in a leaf that has one axis more.
            size = rows, self.length
            add_crop(chain, size, (0, first), (1, places), columns_first=True)
        shape = list(chain.shape)
        shape[along] = self.length
        chain.shape = tuple(shape)


@dataclass(frozen=True, eq=False, repr=False)
class RandomWindow(Alternating, Window):
    """A window of a longer sequence, anywhere in it; of any dtype.

    First in the chain of a ragged leaf it makes the leaf one of fixed shape, `[length,
    ...]`, whatever the length of the example; all operations may follow. An example
    that is shorter is kept whole and filled up with the buffer's `pad_value` at its
    end; `mask()` says in another leaf which rows are no padding. One object in the
    chains of leaves that are equally long chooses the same rows in all of them.

    Args:
        length: of the window.
        axis: along which: 0, or -1, the last. Of spectrograms [frequency, time] and
            [channel, frequency, time] the last is that of time.
        alternate: draw one window for two uses of an example in an epoch, mirrored
            about the middle at the second: as far from the end as the first is from the
            start. Otherwise uses are independent.

    Examples:
        >>> signal = np.arange(100)
        >>> chain = [T.RandomWindow(4)]
        >>> loader = EchoLoader([signal] * 3, batch_size=3, factor=1, transform=chain)
        >>> next(iter(loader))
        array([[89, 90, 91, 92],
               [85, 86, 87, 88],
               [73, 74, 75, 76]])

        Of examples of any length, with the rows that are no padding:

        >>> window = T.RandomWindow(4)
        >>> buffer = EchoBuffer(
        ...     {"ids": Field((None,), np.int64, max_length=100)},
        ...     batch_size=2,
        ...     window=2,
        ...     factor=1,
        ...     transform={"ids": [window], "mask": [T.Source("ids"), window.mask()]},
        ... )
        >>> for length in (2, 100):
        ...     buffer.put({"ids": np.arange(1, length + 1)})
        >>> batch = buffer.next_batch()
        >>> batch["ids"].tolist()
        [[90, 91, 92, 93], [1, 2, 0, 0]]
        >>> batch["mask"].astype(int).tolist()
        [[1, 1, 1, 1], [1, 1, 0, 0]]
    """

    take = "random"

    def _place(self, extent: int) -> tuple[int, int]:
        return 0, extent - self.length + 1


@dataclass(frozen=True, eq=False)
class CenterWindow(Window):
    """The window in the middle of a sequence; of any dtype.

    First in the chain of a ragged leaf it makes the leaf one of fixed shape, as
    `RandomWindow` does, but the same at each draw: for evaluation. Of n rows it leaves
    out `(n - length) // 2` at the start.

    Args:
        length: of the window.
        axis: along which: 0, or -1, the last.

    Examples:
        >>> signal = np.arange(10)
        >>> chain = [T.CenterWindow(4)]
        >>> next(iter(EchoLoader([signal], batch_size=1, transform=chain)))
        array([[3, 4, 5, 6]])
    """

    take = "center"

    def _place(self, extent: int) -> tuple[int, int]:
        return (extent - self.length) // 2, 1


@dataclass(frozen=True, eq=False)
class WindowMask(Operation):
    """The rows of a window of a ragged leaf that are no padding."""

    window: Window

    @property
    def chance(self) -> Operation:
        """The window, whose random numbers it uses."""
        return self.window

    def add_to(self, chain: Chain) -> None:
        raise chain.refusal(
            "comes first in the chain of a ragged leaf, behind Source, and only there"
        )


# ---- chains of ragged leaves


_PIECES = (512, 32)  # numbers that are made together


@dataclass(frozen=True)
class RaggedPlan:
    """The plan of a ragged leaf, and the leaf that it makes."""

    chain: Chain  # after the last operation
    rows: _core.RowsPlan | None  # the plan in the core's form; None: the leaf as it is
    field: Field  # of the leaf, before functions on whole batches


def plan(
    name: str, field: Field, places: Sequence[Place], images: dict[int, list[Extent]]
) -> RaggedPlan:
    """Return the plan of the operations on a ragged leaf.

    Args:
        name: of the leaf, for messages.
        field: of the record, whose axis 0 is None.
        places: of the operations.
        images: the extents of images that a mix cuts, by its id; of all leaves.
    """
    first = places[0].operation if places else None
    if isinstance(first, Window) and first.axis % len(field.shape) == 0:
        return _windowed(name, field, first, False, places, images)
    if isinstance(first, WindowMask):
        return _windowed(name, field, first.window, True, places, images)
    return _of_all_rows(name, field, places)


# ---- of windows


class _WindowChain(Chain):
    """The operations behind a window of a ragged leaf."""

    def _check_operation(self, operation: Any) -> None:
        if isinstance(operation, Operation) and mixes_in(operation):
            raise self.refusal(
                "mixes examples, which is not there yet for ragged leaves; mix batches "
                "in the training step"
            )


def _windowed(
    name: str,
    field: Field,
    window: Window,
    mask: bool,
    places: Sequence[Place],
    images: dict[int, list[Extent]],
) -> RaggedPlan:
    shape, dtype = (window.length, *field.shape[1:]), field.dtype
    if mask:
        shape, dtype = (window.length,), np.dtype(np.bool_)
    chain = _WindowChain(name, Field(shape, dtype), images)
    chain.begin(places[0], 0)
    for index, place in enumerate(places[1:], 1):
        chain.add(place, index)
    made, result = chain.finish()
    rows = _core.RowsPlan(
        take=window.take,
        row_bytes=row_bytes(field),
        bytes=math.prod(result.shape) * result.dtype.itemsize,
        length=window.length,
        operation=places[0].number | words_of(window),
        mask=mask,
        pieces=[] if made is None else [(window.length, made)],
    )
    return RaggedPlan(chain, rows, result)


# ---- of rows that keep their number


class _RowsChain(Chain):
    """The operations on some rows of a ragged leaf, a piece of an example.

    Args:
        name: of the leaf, for messages.
        field: of the record, whose axis 0 is None.
        rows: of the piece.
    """

    def __init__(self, name: str, field: Field, rows: int) -> None:
        super().__init__(name, Field((rows, *field.shape[1:]), field.dtype), {})
        self._rows = rows

    def is_image(self) -> bool:
        """Return False: rows are made in pieces, which are no images."""
        return False

    def shown_shape(self) -> list[int | None]:
        """Return the shape of the whole leaf."""
        return [None, *self.shape[1:]] if self.drawn is None else [*self.shape]

    def _check_size(self) -> None:
        if self.drawn is None:
            super()._check_size()

    def _check_operation(self, operation: Any) -> None:
        if getattr(operation, "on_batches", False):
            self.end_rows()
            return
        for each in every([operation]):
            if not getattr(each, "keeps_length", False):
                raise self.refusal(
                    "needs a fixed shape, and the length of the leaf varies: put "
                    "RandomWindow(length) or CenterWindow(length) first in the chain, "
                    "or use a Lambda"
                )

    def end_rows(self) -> None:
        """End the part that is made in pieces: the leaf is whole from now on."""
        if self.drawn is None:
            whole: tuple[Any, ...] = (None, *self.shape[1:])
            self.drawn = whole, self.dtype
            self.shape = whole


def _of_all_rows(name: str, field: Field, places: Sequence[Place]) -> RaggedPlan:
    elements = math.prod(field.shape[1:])
    sizes = sorted({max(1, most // elements) for most in _PIECES}, reverse=True)
    made = [_piece(name, field, places, rows) for rows in sizes]
    chain = made[0][0]
    pieces = [
        (rows, each)
        for rows, (_, each) in zip(sizes, made, strict=True)
        if each is not None
    ]
    assert chain.drawn is not None
    result = Field(*chain.drawn)
    if not pieces:
        return RaggedPlan(chain, None, result)
    rows = _core.RowsPlan(
        take="all",
        row_bytes=row_bytes(field),
        bytes=row_bytes(result),
        pieces=pieces,
        row_elements=elements,
    )
    return RaggedPlan(chain, rows, result)


def _piece(
    name: str, field: Field, places: Sequence[Place], rows: int
) -> tuple[Chain, _core.ChainPlan | None]:
    chain = _RowsChain(name, field, rows)
    for index, place in enumerate(places):
        chain.add(place, index)
    chain.end_rows()
    return chain, chain.finish()[0]
