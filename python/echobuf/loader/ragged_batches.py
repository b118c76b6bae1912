"""Batches with ragged leaves, as upstream yields them: found, and read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from echobuf import hints
from echobuf._engine.ragged_forms import RaggedLeaf, is_arrow, is_nested, split
from echobuf.errors import SpecError, message
from echobuf.field import Field
from echobuf.loader.ragged_items import flags_of
from echobuf.ragged import Padded, Ragged
from echobuf.spec import about_lists, as_array, first_arrays, shape_of
from echobuf.trees import NAMESPACE, difference, flatten_with_paths, stand_for

_BYTES = (bytes, bytearray)


@dataclass(frozen=True)
class BatchReader:
    """A reader of batches some of whose leaves are ragged.

    A batch is a pytree with a list of arrays, an `echobuf.Ragged`, a jagged nested
    tensor or an Arrow array of lists at each ragged leaf, or an array of examples that
    are padded to the longest of their batch; or it is a list of examples.

    Attributes:
        treespec: the structure of an example.
        ragged: of each leaf, whether it is.
        of_examples: batches are lists of examples.
    """

    treespec: optree.PyTreeSpec
    ragged: tuple[bool, ...]
    of_examples: bool

    def wrap(self, item: Any) -> Any:
        """Return a batch whose ragged leaves are in boxes, and the others arrays.

        Raises:
            SpecError: it has another structure than the first one.
        """
        try:
            leaves = self._leaves(item)
        except (ValueError, TypeError) as error:
            why = "" if self.of_examples else difference(item, self.treespec, "batch")
            raise SpecError(
                "`batch` has another structure than the first one: "
                f"{why or message(error)}"
            ) from None
        paths = self.treespec.accessors()
        read = [
            self._read(leaf, is_one, "batch" + path.codify(""))
            for leaf, is_one, path in zip(leaves, self.ragged, paths, strict=True)
        ]
        return stand_for(self.treespec, read)

    def before(self, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that calls `read` with the batch that `wrap` returns."""
        return lambda item: read(self.wrap(item))

    def _leaves(self, item: Any) -> list[Any]:
        if not self.of_examples:
            return list(self.treespec.flatten_up_to(item))
        rows = [self.treespec.flatten_up_to(example) for example in item]
        columns = [list(column) for column in zip(*rows, strict=True)]
        return columns or [[] for _ in self.ragged]

    def _read(self, leaf: Any, is_one: bool, name: str) -> Any:
        if not is_one:
            return _stack(leaf, name) if self.of_examples else leaf
        parts = split(leaf, name)
        return RaggedLeaf(_rows_of(leaf, name) if parts is None else parts, name)


def _rows_of(leaf: Any, name: str) -> tuple[Any, Any] | list[Any]:
    """Return the parts of an array of arrays, or of examples padded to one length."""
    shape = shape_of(leaf)
    if isinstance(leaf, np.ndarray) and leaf.dtype == object and len(shape) == 1:
        return list(leaf)
    if len(shape) < 2:
        raise SpecError(
            f"`{name}` is of type {type(leaf).__name__}, of shape {list(shape)}, but "
            "said to be ragged, so it must be a list of arrays, or one array [n, "
            "length, ...]. Put None in its place in `ragged`, where its length does "
            "not vary."
        )
    count, length, *rest = shape
    offsets = np.arange(count + 1, dtype=np.int64) * length
    if not hints.is_of(leaf, "torch", "Tensor"):
        leaf = as_array(leaf, name)
    return leaf.reshape(count * length, *rest), offsets


def _stack(column: list[Any], name: str) -> Any:
    """Return a leaf of several examples as one array, or one tensor of tensors."""
    try:
        if column and hints.is_of(column[0], "torch", "Tensor"):
            return sys.modules["torch"].stack(column)
        return np.stack([as_array(each, name) for each in column])
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(
            f"`{name}` cannot be stacked: {message(error)}. If its length varies, say "
            "that it is ragged: `ragged` may be a pytree like an example."
        ) from None


def find_batch_reader(first: Any, batch_size: int | None, flags: Any) -> BatchReader:
    """Return the reader for batches like the first one of upstream.

    Args:
        first: a batch.
        batch_size: of batches, where that is known.
        flags: as in `RaggedRequest`.

    Raises:
        OptionError: the flags are not like it.
    """
    if _is_list_of_examples(first):
        treespec = optree.tree_structure(first[0], namespace=NAMESPACE)
        rows = [treespec.flatten_up_to(example) for example in first]
        ragged = [_varies(column) for column in zip(*rows, strict=True)]
        if flags is not None:
            ragged = flags_of(flags, treespec, "example")
        return BatchReader(treespec, tuple(ragged), of_examples=True)
    if flags is not None:
        treespec = optree.tree_structure(flags, namespace=NAMESPACE)
        ragged = flags_of(flags, treespec, "batch")
        return BatchReader(treespec, tuple(ragged), of_examples=False)
    lists_are_leaves = not _is_plain(first, batch_size)
    leaves, treespec = optree.tree_flatten(
        first,
        is_leaf=lambda node: _is_column(node, lists_are_leaves),
        namespace=NAMESPACE,
    )
    ragged = [_is_column(leaf, lists_are_leaves) for leaf in leaves]
    return BatchReader(treespec, tuple(ragged), of_examples=False)


def _is_list_of_examples(first: Any) -> bool:
    """Return True for a list of containers that have one structure."""
    if not isinstance(first, list) or not first:
        return False
    kinds = [optree.tree_structure(each, namespace=NAMESPACE) for each in first]
    return not kinds[0].is_leaf() and all(kind == kinds[0] for kind in kinds)


def _varies(column: tuple[Any, ...]) -> bool:
    """Return True if the leaves of examples are bytes, or of different lengths."""
    if isinstance(column[0], _BYTES):
        return True
    return len({shape_of(each)[:1] for each in column}) > 1


def _is_plain(first: Any, batch_size: int | None) -> bool:
    """Return True if the lists in a batch are nodes, and its leaves of one length."""
    lists = []

    def note(node: Any) -> bool:
        if _is_list_of_arrays(node):
            lists.append(len(node))
        return isinstance(node, Ragged | Padded)

    leaves = optree.tree_leaves(first, is_leaf=note, namespace=NAMESPACE)
    if batch_size is not None and batch_size in lists:
        return False
    dense = [leaf for leaf in leaves if not _is_column(leaf, False)]
    return len({shape_of(leaf)[:1] for leaf in dense}) <= 1


def _is_column(node: Any, lists_are_leaves: bool) -> bool:
    if isinstance(node, Ragged | Padded):
        return True
    if isinstance(node, list):
        return lists_are_leaves and _is_list_of_arrays(node)
    return is_nested(node) or is_arrow(node)


def _is_list_of_arrays(node: Any) -> bool:
    if not isinstance(node, list) or not node:
        return False
    return all(isinstance(each, _BYTES) or len(shape_of(each)) > 0 for each in node)


def infer_batch(batch: Any) -> tuple[Any, int]:
    """Return the spec of one example of a wrapped batch, and the length of that batch.

    Raises:
        SpecError: a leaf cannot be stored, or leaves hold different numbers.
    """
    paths, leaves, treespec = flatten_with_paths(batch)
    fields, lengths = [], []
    dense = [0 if isinstance(leaf, RaggedLeaf) else leaf for leaf in leaves]
    arrays = first_arrays(batch, dense, paths, "batch")
    for path, leaf, array in zip(paths, leaves, arrays, strict=True):
        if isinstance(leaf, RaggedLeaf):
            fields.append(leaf.infer())
            lengths.append(len(leaf))
            continue
        if array.ndim == 0:
            raise SpecError(
                f"`batch{path}` is a scalar; with batched=True every leaf has the "
                "batch axis as axis 0. Pass batched=False if upstream yields examples."
                f"{about_lists(batch, 'batch')}"
            )
        fields.append(Field(array.shape[1:], array.dtype))
        lengths.append(array.shape[0])
    if any(length != lengths[0] for length in lengths):
        raise SpecError(
            f"the leaves of the first batch hold {lengths} examples; they must hold "
            "the same number. Pass batched=False if upstream yields examples, or say "
            "which leaves are ragged: `ragged` may be a pytree like a batch."
        )
    return stand_for(treespec, fields), lengths[0]
