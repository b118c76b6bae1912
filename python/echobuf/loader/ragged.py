"""Ragged leaves of a loader's items: which they are, and batches that hold some."""

from __future__ import annotations

import itertools
import operator
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from echobuf import hints, nodes
from echobuf._engine.carry import is_column, is_object
from echobuf._engine.ragged_forms import RaggedLeaf, is_arrow, is_nested, split
from echobuf.device_arrays import is_on_device
from echobuf.device_views import join_rows, stack
from echobuf.errors import OptionError, SpecError, message
from echobuf.ragged import Padded, Ragged
from echobuf.spec import as_array, shape_of
from echobuf.trees import (
    NAMESPACE,
    StandIns,
    are_none,
    difference,
    flatten,
    flatten_with_objects,
    is_none,
    leaves_of,
    paths_of_none,
    stand_for,
)

_BYTES = (bytes, bytearray)


class RaggedRequest:
    """The argument `ragged` of a loader.

    Args:
        ragged: "packed", "padded" or another form; or a pytree like an example, or like
            a batch, with the form at ragged leaves and None at the others.

    Attributes:
        form: the form.
        flags: the tree with True at ragged leaves and False at the others; None where
            a loader is to find them.

    Raises:
        OptionError: the tree has several forms, or none.
    """

    def __init__(self, ragged: Any) -> None:
        self.form: str | None = None
        self.flags: Any = None
        if ragged is None or isinstance(ragged, str):
            self.form = ragged
            return
        nodes.learn(ragged)
        forms = optree.tree_leaves(ragged, namespace=NAMESPACE)  # None is no leaf
        if not forms or any(not isinstance(each, str) for each in forms):
            raise OptionError(
                f"`ragged` is {ragged!r}; it must be 'packed' or 'padded', or a pytree "
                "like an example with one of them at each ragged leaf and None at the "
                "others."
            )
        if len(set(forms)) > 1:
            raise OptionError(
                f"`ragged` has the forms {sorted(set(forms))}; all ragged leaves have "
                "one form."
            )
        self.form = forms[0]
        self.flags = optree.tree_map(
            lambda each: each is not None,
            ragged,
            none_is_leaf=True,
            namespace=NAMESPACE,
        )

    def flags_of_example(self, first: Any, *, all_ragged: bool) -> Any:
        """Return the flags for examples like the first one; None if none are given.

        Where an example is one array, the form is such a tree.

        Args:
            first: the first example.
            all_ragged: all arrays are ragged, as those of packed rows are; a buffer
                refuses scalars beside them.
        """
        if self.flags is not None:
            return self.flags
        leaves, treespec = flatten(first)
        if self.form is not None and treespec.is_leaf():
            return True
        return stand_for(treespec, map(has_rows, leaves)) if all_ragged else None

    def flags_of_batch(self, first: Any) -> Any:
        """Return the flags for batches like the first one; None if none are given.

        Where a batch is one array, padded to its longest, the form is such a tree.
        """
        is_padded = self.form is not None and len(shape_of(first)) > 1
        return True if self.flags is None and is_padded else self.flags


def flags_of(flags: Any, treespec: Any, what: str) -> list[bool]:
    """Return for each leaf of a structure whether the caller says that it is ragged.

    Args:
        flags: a tree of them.
        treespec: the structure of what upstream yields, with None for each leaf that is
            carried.
        what: its name: "example" or "batch".

    Raises:
        OptionError: the tree has another structure, or a leaf is carried that it says
            is ragged.
    """
    try:
        if isinstance(flags, StandIns):
            return [flag is True for flag in leaves_of(flags, treespec)]
        all_flags = flatten_with_objects(flags, treespec)
    except (ValueError, TypeError) as error:
        raise OptionError(
            f"`ragged` has another structure than `{what}`: {message(error)} Give "
            "'packed' or 'padded', or a pytree with it at each ragged leaf and None at "
            "every other."
        ) from None
    are_carried = are_none(treespec)
    carried = itertools.compress(all_flags, are_carried)
    for flag, path in zip(carried, paths_of_none(treespec), strict=True):
        if flag is True:
            raise OptionError(
                f"`ragged` names `{what}{path}`, which is no array; put None in its "
                "place."
            )
    arrays = itertools.compress(all_flags, map(operator.not_, are_carried))
    return [flag is True for flag in arrays]


def has_rows(leaf: Any) -> bool:
    """Return True for bytes, and for an array that is no scalar."""
    return isinstance(leaf, bytes | bytearray) or len(shape_of(leaf)) > 0


# ---- batches


@dataclass(frozen=True)
class BatchDecoder:
    """A decoder of batches some of whose leaves are ragged.

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
    if is_on_device(leaf):
        return join_rows(leaf, name), offsets
    if not hints.is_of(leaf, "torch", "Tensor"):
        leaf = as_array(leaf, name)
    return leaf.reshape(count * length, *rest), offsets


def _stack(column: list[Any], name: str) -> Any:
    """Return a leaf of several examples as one array, or one tensor of tensors."""
    if any(is_object(each, ragged=True) for each in column):
        return column  # which is carried, or refused with all others
    try:
        if column and hints.is_of(column[0], "torch", "Tensor"):
            return sys.modules["torch"].stack(column)
        if any(map(is_on_device, column)):
            return stack(column)
        return np.stack([as_array(each, name) for each in column])
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(
            f"`{name}` cannot be stacked: {message(error)}. If its length varies, say "
            "that it is ragged: `ragged` may be a pytree like an example."
        ) from None


def find_batch_decoder(first: Any, batch_size: int | None, flags: Any) -> BatchDecoder:
    """Return the decoder for batches like the first one of upstream.

    Args:
        first: a batch.
        batch_size: of batches, where that is known.
        flags: as in `RaggedRequest`.

    Raises:
        OptionError: the flags are not like it.
    """
    if _is_list_of_examples(first):
        treespec = _structure(first[0])
        rows = [treespec.flatten_up_to(example) for example in first]
        ragged = [_varies(column) for column in zip(*rows, strict=True)]
        if flags is not None:
            ragged = flags_of(flags, treespec, "example")
        return BatchDecoder(treespec, tuple(ragged), of_examples=True)
    if flags is not None:
        treespec = optree.tree_structure(flags, namespace=NAMESPACE)
        ragged = flags_of(flags, treespec, "batch")
        return BatchDecoder(treespec, tuple(ragged), of_examples=False)
    lists_are_leaves = not _is_plain(first, batch_size)
    leaves, treespec = optree.tree_flatten(
        first,
        is_leaf=lambda node: (
            _is_column(node, lists_are_leaves)
            or node is None
            or is_column(node, batch_size, ragged=True)
        ),
        namespace=NAMESPACE,
    )
    ragged = [_is_column(leaf, lists_are_leaves) for leaf in leaves]
    return BatchDecoder(treespec, tuple(ragged), of_examples=False)


def _structure(example: Any) -> optree.PyTreeSpec:
    return flatten(example, is_none)[1]


def _is_list_of_examples(first: Any) -> bool:
    """Return True for a list of containers that have one structure."""
    if not isinstance(first, list) or not first:
        return False
    kinds = [*map(_structure, first)]
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
