"""The arrays of batches that have rows: their shapes, and the leaves made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from echobuf.cuda.arrays import Shapes
from echobuf.field import Field, is_ragged, row_shape
from echobuf.options import Options
from echobuf.out import memory_of
from echobuf.ragged import Packed, Padded, Ragged
from echobuf.spec import Spec, make_spec

_IDS = 3  # arrays of packed rows, behind the values: segments, positions, lengths

Memory = tuple[list[tuple[int, int, int]], tuple[int, int, int]]
"""The addresses of the arrays of a batch, as the core takes them."""

NO_MEMORY: Memory = ([], (0, 0, 0))  # to learn the size of a batch


class RowsArrays:
    """The arrays of batches, some of whose leaves are ragged.

    These are the values of each leaf, and behind those of a ragged leaf its offsets or
    lengths; or, of packed rows, the values of all leaves, and then what says which
    value is of which example.

    Args:
        spec: of batches, as they are drawn.
        options: the buffer's.

    Attributes:
        spec: of the arrays of a batch without records: their dtypes are those of any.
    """

    def __init__(self, spec: Spec, options: Options) -> None:
        self._spec = spec
        self._packs = options.packs
        self._is_packed = options.ragged == "packed"
        self._are_ragged = [is_ragged(field) for field in spec.fields]
        self._rests = [
            row_shape(field)
            if is_ragged(field)
            else field.shape[len(spec.batch_axis) :]
            for field in spec.fields
        ]
        self._make: Callable[..., Any] = Ragged if self._is_packed else Padded
        self._sources = [*range(len(spec.fields))]
        dtypes = self.of_each(
            [field.dtype for field in spec.fields], np.dtype(np.int64), np.int32
        )
        shapes = self.shapes(0, [0] * len(spec.fields))
        self.spec = make_spec([*map(Field, shapes, dtypes)])

    def use_maker(self, make: Callable[..., Any], sources: list[int]) -> None:
        """Make ragged leaves by `make(values, index)` from now on.

        Args:
            make: makes a leaf.
            sources: which leaf of the records each is made from; those of one source
                are of equal lengths, and have one index.
        """
        self._make, self._sources = make, sources

    def shapes(self, count: int, rows: list[int]) -> Shapes:
        """Return the shapes of the arrays of a batch.

        Args:
            count: of its examples; of packed rows, of these.
            rows: of each leaf.
        """
        shapes: Shapes = []
        for ragged, rest, length in zip(
            self._are_ragged, self._rests, rows, strict=True
        ):
            if not ragged:
                shapes.append((count, *rest))
            elif self._packs:
                shapes.append((count, length, *rest))
            elif self._is_packed:
                shapes += (length, *rest), (count + 1,)
            else:
                shapes += (count, length, *rest), (count,)
        if self._packs:
            shapes += (count, rows[0]), (count, rows[0]), (count,)
        return shapes

    def of_each(self, of_leaves: list[Any], of_index: Any, of_ids: Any) -> list[Any]:
        """Return what is known of the leaves for each array.

        Args:
            of_leaves: for the values.
            of_index: for offsets and lengths.
            of_ids: for segments and positions.
        """
        if self._packs:
            return [*of_leaves, of_ids, of_ids, of_index]
        known = []
        for ragged, of_leaf in zip(self._are_ragged, of_leaves, strict=True):
            known += [of_leaf, of_index] if ragged else [of_leaf]
        return known

    def memory(self, rows: Sequence[int], addresses: list[int]) -> Memory:
        """Return arrays as the core takes them; `rows`: that each leaf has room for."""
        return memory_of(self._spec, rows, addresses, packs=self._packs)

    def join(self, arrays: list[Any]) -> list[Any]:
        """Return the leaves of a batch, made of its arrays."""
        if self._packs:
            return [Packed(values, *arrays[-_IDS:]) for values in arrays[:-_IDS]]
        each = iter(arrays)
        indices: dict[int, Any] = {}
        joined = []
        for ragged, source in zip(self._are_ragged, self._sources, strict=True):
            leaf = next(each)
            if ragged:
                index = next(each)
                leaf = self._make(leaf, indices.setdefault(source, index))
            joined.append(leaf)
        return joined
