"""Chains on ragged leaves: of windows, or of rows that keep their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.field import Field, row_bytes
from echobuf.transforms.chain import Chain
from echobuf.transforms.choices import mixes_in
from echobuf.transforms.lowering import Extent
from echobuf.transforms.operation import Operation, Place, every, words_of
from echobuf.transforms.windows import Window, WindowMask

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


# ---- windows


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


# ---- rows that keep their number


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
