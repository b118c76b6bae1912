"""Leaves of items that are no arrays: which they are, and the table that has them."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from echobuf import _core, hints
from echobuf._engine.ragged_forms import RaggedLeaf, is_arrow, is_nested
from echobuf.errors import SpecError
from echobuf.ragged import Packed, Padded, Ragged
from echobuf.spec import (
    is_array,
    make_structure,
    of_all_leaves,
    shape_of,
)
from echobuf.trees import (
    StandIns,
    are_of_jax,
    difference,
    flatten,
    flatten_with_paths,
    is_none,
    stand_for,
    without,
)

if TYPE_CHECKING:
    pass

_OF_OBJECTS = "OUST"  # kinds of NumPy's dtypes: objects and texts


def is_object(leaf: Any, *, ragged: bool) -> bool:
    """Return True for a leaf that is no array, and so is carried.

    Args:
        leaf: of an example, or of a batch.
        ragged: bytes, and leaves of several lengths, are arrays.
    """
    kind = type(leaf)  # an instance may say that it is of another
    if leaf is None or issubclass(kind, str):
        return True
    if issubclass(kind, bytes | bytearray):
        return not ragged
    if issubclass(kind, np.ndarray):
        return leaf.dtype.kind in _OF_OBJECTS and not _holds_arrays(leaf)
    try:
        if hints.of_columns(leaf):
            return True
        if is_array(leaf):
            return False
        if issubclass(kind, memoryview) or is_nested(leaf) or is_arrow(leaf):
            return not ragged
    except Exception:  # of the code of its class
        return True
    return not issubclass(kind, Ragged | Padded | Packed | RaggedLeaf)


def _holds_arrays(leaf: np.ndarray[Any, Any]) -> bool:
    """Return True for an array of arrays, which is one leaf of several lengths."""
    return leaf.size > 0 and bool(shape_of(leaf.flat[0]))


def is_column(node: Any, count: int | None, *, ragged: bool) -> bool:
    """Return True for a list or a tuple in a batch that is one leaf, of objects.

    It has no array, or is one object for each example, some of which are arrays. A list
    of such columns is none itself: so `default_collate` leaves tuples of strings.

    Args:
        node: of a batch.
        count: of examples in the batch; None where it is not known.
        ragged: as for `is_object`.
    """
    if type(node) not in (list, tuple):
        return False
    if node and all(_is_of_each(child, count, ragged=ragged) for child in node):
        return False
    leaves, structure = flatten(node, is_none)
    are_objects = [is_object(leaf, ragged=ragged) for leaf in leaves]
    if not any(are_objects):
        return False
    arrays = itertools.compress(leaves, map(operator.not_, are_objects))
    lengths = [shape[0] for leaf in arrays if (shape := shape_of(leaf))]
    if all(child.is_leaf() for child in structure.children()):
        return not lengths or (len(node) == count and {*lengths} != {count})
    return len(node) == count and not lengths


def _is_of_each(node: Any, count: int | None, *, ragged: bool) -> bool:
    """Return True for a column that has one object for each example."""
    return is_split(node, count) and is_column(node, count, ragged=ragged)


class Carrier:
    """Takes the leaves that are no arrays out of items like the first one.

    Args:
        first: the first item.
        batched: it is a batch, where a list with an object for each example is a leaf.
        ragged: as for `is_object`.

    Attributes:
        treespec: the structure of items, with None for each leaf that is carried.
        paths: of the leaves that are carried.
        kinds: types that are no arrays, as they are seen.
        count: the number of leaves that are carried.
        bare: of each of these, whether it is None in a class of JAX's, for which that
            is no leaf: so it is in batches, too.
    """

    def __init__(self, first: Any, *, batched: bool, ragged: bool) -> None:
        self._batched, self._ragged = batched, ragged
        count = count_examples(first, ragged=ragged) if batched else None

        def is_leaf(node: Any) -> bool:
            return node is None or (batched and is_column(node, count, ragged=ragged))

        paths, leaves, self._whole = flatten_with_paths(first, is_leaf)
        is_carried = [is_leaf(x) or is_object(x, ragged=ragged) for x in leaves]
        self.treespec = without(self._whole, is_carried)
        self._is_carried = is_carried
        self.paths = [*itertools.compress(paths, is_carried)]
        self._structure = make_structure(self.treespec, carries=True)
        self.kinds: set[type] = set()
        of_jax = zip(leaves, are_of_jax(self._whole), strict=True)
        is_bare = [leaf is None and is_one for leaf, is_one in of_jax]
        self.bare = [*itertools.compress(is_bare, is_carried)]
        self.count = sum(is_carried)
        first_objects = itertools.compress(leaves, is_carried)
        self._never_arrays = {
            path
            for path, leaf in zip(self.paths, first_objects, strict=True)
            if _are_never_arrays(leaf)
        }

    def split(self, item: Any) -> tuple[Any, list[Any]]:
        """Return an item with None for each leaf that is carried; and these.

        Raises:
            SpecError: it has another structure than the first one, or an array where
                that has an object.
        """
        arrays, objects = self._take_apart(item)
        if self._batched:
            objects = [self._listed(leaf, arrays) for leaf in objects]
        errors: list[tuple[str, object, SpecError]] = []
        for path, leaf, is_bare in zip(self.paths, objects, self.bare, strict=True):
            try:
                self._check(leaf, path, is_bare=is_bare)
            except SpecError as error:
                errors.append((self._what + path, type(leaf), error))
        if errors:
            raise of_all_leaves(errors)
        return stand_for(self.treespec, arrays), objects

    def _listed(self, leaf: Any, arrays: list[Any]) -> Any:
        """Return a leaf of a batch; an array of texts or objects as a list of them."""
        is_array = type(leaf) is np.ndarray or hints.holds_objects(leaf)
        if not is_array or not is_object(leaf, ragged=self._ragged):
            return leaf
        if shape_of(leaf)[:1] != (count_examples(arrays, ragged=self._ragged),):
            return leaf
        array = np.asarray(leaf)
        return array.tolist() if array.ndim == 1 else [*array]

    def strip(self, item: Any) -> Any:
        """Return the first part of `split`."""
        return self.split(item)[0]

    def _take_apart(self, item: Any) -> tuple[list[Any], list[Any]]:
        if isinstance(item, StandIns) and item.treespec == self._whole:
            parts: tuple[list[Any], list[Any]] = [], []
            for leaf, is_carried in zip(item.leaves, self._is_carried, strict=True):
                parts[is_carried].append(leaf)
            return parts
        found = self._structure.take_apart(item)
        if found is None:
            what = self._what
            why = difference(item, self.treespec, what, carries=True)
            raise SpecError(
                f"`{what}` has another structure than the first one. {why}".rstrip()
            )
        return found

    def describe(self) -> str:
        """Return the names of the leaves that are carried."""
        return ", ".join(f"`{self._what}{path}`" for path in self.paths)

    @property
    def _what(self) -> str:
        return "batch" if self._batched else "example"

    def _check(self, leaf: Any, path: str, *, is_bare: bool) -> None:
        if is_bare and leaf is not None:
            raise SpecError(
                f"`{self._what}{path}` is of type {type(leaf).__name__}; it was "
                "None in the first one, which is no leaf in a class of JAX's."
            )
        leaves = leaf if self._batched and type(leaf) in (list, tuple) else [leaf]
        are_arrays = not any(is_object(each, ragged=self._ragged) for each in leaves)
        if leaves is leaf:  # some of its objects may be arrays or numbers
            are_arrays = (
                are_arrays and path in self._never_arrays and any(map(shape_of, leaf))
            )
        if are_arrays:
            raise SpecError(
                f"`{self._what}{path}` is an array ({type(leaf).__name__}), where the "
                "first one has an object: a leaf is one or the other in all of them. "
                "Make an object of it here, or an array there (a number such as -1 or "
                "`np.nan` in place of None)."
            )
        if leaves and _is_decided(leaves[0]):
            self.kinds.add(type(leaves[0]))


def _are_never_arrays(leaf: Any) -> bool:
    """Return True for an object, or a list of objects, in whose place no array comes.

    In that of None one may, in a list.
    """
    leaves = leaf if type(leaf) in (list, tuple) else [leaf]
    return all(each is not None and not shape_of(each) for each in leaves)


def count_examples(batch: Any, *, ragged: bool) -> int | None:
    """Return the number of examples in a batch, as its first array has them.

    Args:
        batch: of upstream.
        ragged: as for `is_object`.
    """
    leaves, _ = flatten(batch, is_none)
    for leaf in leaves:
        if isinstance(leaf, RaggedLeaf):
            return len(leaf)
        shape = shape_of(leaf)
        if shape and not is_object(leaf, ragged=ragged):
            return int(shape[0])
    return None


def skip_objects(leaves: list[Any], count: int, left: int) -> list[Any]:
    """Return the carried leaves of a batch of `count` for the last `left` examples."""
    return [leaf[count - left :] if is_split(leaf, count) else leaf for leaf in leaves]


def is_split(leaf: Any, count: int | None) -> bool:
    """Return True for a leaf of a batch with one object for each of its examples."""
    return type(leaf) in (list, tuple) and len(leaf) == count


def _is_decided(leaf: Any) -> bool:
    """Return True if all instances of a type are objects."""
    if issubclass(type(leaf), np.ndarray) or hints.holds_objects(leaf):
        return False
    try:
        memoryview(leaf)
    except TypeError:
        return True
    return False


def find_carrier(first: Any, *, batched: bool, ragged: bool) -> Carrier | None:
    """Return what takes the leaves that are no arrays out of items like the first.

    None where there are no such leaves, or no others: then there is nothing to store.
    """
    carrier = Carrier(first, batched=batched, ragged=ragged)
    is_used = not all(carrier.bare) and carrier.treespec.num_leaves > 0
    return carrier if is_used else None


class Carried:
    """The objects of an epoch's examples, while their records are in the window.

    Feeders add them, in the order in which examples are put; draws take them by the
    numbers of the examples, and forget those whose records have left the window. An
    object may refer to the loader: threads refer to the table weakly.

    Args:
        carrier: takes them out of items.
        first: the number of the example that is put first.
        whole: examples are whole batches, and objects lists of theirs.

    Attributes:
        objects: the table.
    """

    def __init__(self, carrier: Carrier, first: int, *, whole: bool) -> None:
        self.objects = _core.CarriedObjects(carrier.kinds, carrier.count, first, whole)
        self._bare = [i for i, is_one in enumerate(carrier.bare) if is_one]
        self._oldest = first
        # Of threads that draw: what was the oldest when they began.
        self._drawing: dict[object, int] = {}

    def begin_draw(self) -> object:
        """Keep all objects until `end_draw` is called with what this returns."""
        draw = object()
        self._drawing[draw] = self._oldest
        return draw

    def end_draw(self, draw: object, oldest: int) -> None:
        """Forget the objects of examples before `oldest` that no other draw needs."""
        del self._drawing[draw]
        if self._drawing:
            oldest = min([oldest, *self._drawing.copy().values()])
        if oldest > self._oldest:
            self._oldest = oldest
            self.objects.forget(oldest)

    def columns(self, numbers: Any) -> list[Any]:
        """Return, of each leaf, the objects of examples.

        Args:
            numbers: of the examples of a batch, in order; of a whole batch, its own.
        """
        columns: list[Any] = self.objects.take(numbers)
        for i in self._bare:
            columns[i] = None
        return columns

    def clear(self) -> None:
        """Forget all: nothing more is drawn of the epoch."""
        self.objects.clear()
