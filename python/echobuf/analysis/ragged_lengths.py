"""Lengths of examples whose arrays differ in length, and the memory that they need."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import optree

from echobuf._engine.ragged_forms import RaggedLeaf, bytes_as_array
from echobuf.field import is_ragged, row_bytes
from echobuf.loader.ragged import BatchDecoder
from echobuf.spec import Spec, shape_of
from echobuf.trees import NAMESPACE

_MOST = 10_000  # examples whose lengths are kept
_DEVIATIONS = 3.0  # that a segment may be above its mean: one of a thousand is
_AUTO_SEGMENTS = 16  # the most that "auto" makes of a window
_DIGITS = 2  # of the bytes that are advised


@dataclass(frozen=True)
class RaggedLengths:
    """Lengths of examples, and the arguments of the loader for ragged leaves.

    Attributes:
        examples: number of examples measured.
        mean_rows: rows of an example, the mean over examples and ragged leaves.
        mean_bytes: bytes of the ragged leaves of an example.
        spread_bytes: standard deviation of these bytes.
        largest_bytes: bytes of the ragged leaves of the largest example.
        batch_size: `batch_size` of the loader, which with `pack_to` counts rows; None
            with `max_rows`.
        arguments: `payload_bytes`, `ragged`, `pad_to` and so on of the loader.
    """

    examples: int
    mean_rows: float
    mean_bytes: float
    spread_bytes: float
    largest_bytes: int
    batch_size: int | None
    arguments: dict[str, Any]

    @property
    def is_padded(self) -> bool:
        """Return True if batches are padded."""
        forms = optree.tree_leaves(self.arguments["ragged"], namespace=NAMESPACE)
        return "padded" in forms

    def payload_bytes(self, window: int, factor: float | Fraction | str) -> int:
        """Return the `payload_bytes` with which segments end by their examples.

        A share of the window then holds the mean of its examples and three standard
        deviations more, and the largest example.
        """
        segments = _AUTO_SEGMENTS if isinstance(factor, str) else math.ceil(factor)
        segments = max(1, min(segments, window))
        examples = math.ceil(window / segments)
        share = examples * self.mean_bytes
        share += _DEVIATIONS * math.sqrt(examples) * self.spread_bytes
        size = segments * max(share, self.largest_bytes, 1)
        unit = int(10 ** max(0, math.floor(math.log10(size)) + 1 - _DIGITS))
        return math.ceil(size / unit) * unit


def rows_of_batches(arguments: dict[str, Any], batch_size: int) -> int:
    """Return the rows of a batch whose number of examples follows from them; else 0."""
    return arguments.get("max_rows") or (arguments.get("pack_to") or 0) * batch_size


class LengthReader:
    """A reader of the lengths of what upstream yields.

    Args:
        find: returns the decoder for batches like the first one; None where
            upstream yields examples.
    """

    def __init__(self, find: Callable[[Any], BatchDecoder] | None) -> None:
        self._find = find
        self._decoder: BatchDecoder | None = None
        self._treespec: Any = None
        self._rows: list[tuple[int, ...]] = []  # of each example, of each leaf

    def examples_in(self, item: Any) -> int:
        """Return the number of examples in an item."""
        if self._find is None:
            return 1
        return max(map(_length, self._wrapped(item)), default=0)

    def add(self, item: Any) -> None:
        """Keep the lengths of an item's examples, unless there are many of them."""
        if len(self._rows) >= _MOST:
            return
        if self._find is not None:
            columns = map(_lengths, self._wrapped(item))
            self._rows += zip(*columns, strict=True)
            return
        if self._treespec is None:
            self._treespec = optree.tree_structure(item, namespace=NAMESPACE)
        leaves = self._treespec.flatten_up_to(item)
        self._rows.append(tuple(_length(bytes_as_array(each)) for each in leaves))

    def longest_rows(self) -> int:
        """Return the sum over examples of the rows of their longest leaf."""
        return sum(max(rows, default=0) for rows in self._rows)

    def summary(
        self, spec: Spec, batch_size: int | None, arguments: dict[str, Any]
    ) -> RaggedLengths:
        """Return the known lengths, for a loader with these arguments."""
        chosen = [i for i, field in enumerate(spec.fields) if is_ragged(field)]
        known: Any = np.array(self._rows, np.float64).reshape(-1, len(spec.fields))
        rows = known[:, chosen]
        if arguments["pack_to"] is not None:
            rows = np.minimum(rows, arguments["pack_to"])
        sizes = rows @ [float(row_bytes(spec.fields[i])) for i in chosen]
        return RaggedLengths(
            examples=len(sizes),
            mean_rows=float(rows.mean()),
            mean_bytes=float(sizes.mean()),
            spread_bytes=float(sizes.std()),
            largest_bytes=int(sizes.max()),
            batch_size=batch_size,
            arguments=arguments,
        )

    def _wrapped(self, batch: Any) -> list[Any]:
        assert self._find is not None
        if self._decoder is None:
            self._decoder = self._find(batch)
        return optree.tree_leaves(self._decoder.wrap(batch), namespace=NAMESPACE)


def _length(leaf: Any) -> int:
    if isinstance(leaf, RaggedLeaf):
        return len(leaf)
    shape = shape_of(leaf)
    return int(shape[0]) if len(shape) else 0


def _lengths(leaf: Any) -> list[int]:
    """Return the rows of each example in a leaf of a batch."""
    if not isinstance(leaf, RaggedLeaf):
        return [_length(leaf[0])] * len(leaf) if len(leaf) else []
    if isinstance(leaf.parts, tuple):
        return [int(length) for length in np.diff(np.asarray(leaf.parts[1]))]
    return [_length(bytes_as_array(each)) for each in leaf.parts]
