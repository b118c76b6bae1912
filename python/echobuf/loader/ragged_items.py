"""Ragged leaves of a loader's examples: which they are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from echobuf import nodes
from echobuf._engine.ragged_forms import bytes_as_array
from echobuf._engine.termination import upstream_failed
from echobuf.errors import OptionError, SpecError, message
from echobuf.field import Field
from echobuf.spec import about_lists, copy_leaf, first_arrays, shape_of
from echobuf.trees import (
    NAMESPACE,
    flatten,
    flatten_with_paths,
    leaves_of,
    map_leaves,
    stand_for,
)

MOST_AHEAD = 256  # items that are looked at, so that their lengths are seen to vary


class Ahead(Iterator[Any]):
    """Items of upstream, some of which have been taken already.

    Args:
        items: of upstream.
        first: the item before them, taken already.

    Attributes:
        first: the same; a copy once `look` was called, as upstream may have used its
            memory again.
    """

    def __init__(self, items: Iterator[Any], first: Any) -> None:
        self.first = first
        self._items = items
        self._taken: deque[Any] = deque()
        self._error: Exception | None = None
        self._noted: Exception | None = None

    def __next__(self) -> Any:
        if self._taken:
            return self._taken.popleft()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return next(self._items)

    def look(self, most: int) -> Iterator[Any]:
        """Yield copies of the items that come next, up to `most`, and keep them.

        An error of upstream's ends it, and is raised where the item would have been.
        """
        self.first = map_leaves(copy_leaf, self.first)
        for _ in range(most):
            try:
                item = next(self._items)
            except StopIteration:
                return
            except Exception as error:
                self._error = error
                return
            self._taken.append(map_leaves(copy_leaf, item))
            yield self._taken[-1]

    def note(self, error: Exception) -> None:
        """Note an error of what was looked at, which is raised again in its place."""
        self._noted = error

    def raise_error(self) -> None:
        """Raise `UpstreamError` if upstream raised while items were looked at."""
        error = self._error or self._noted
        if error is not None:
            raise upstream_failed(error)

    def holds_items(self) -> bool:
        """Return True while upstream is ahead of what was handed out."""
        return bool(self._taken)


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
        import optree

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
            all_ragged: all arrays are ragged, as with `pack_to`; a buffer refuses
                scalars beside them.
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
        treespec: the structure of what upstream yields.
        what: its name: "example" or "batch".

    Raises:
        OptionError: the tree has another structure.
    """
    try:
        return [flag is True for flag in leaves_of(flags, treespec)]
    except (ValueError, TypeError) as error:
        raise OptionError(
            f"`ragged` has another structure than `{what}`: {message(error)} Give "
            "'packed' or 'padded', or a pytree with it at each ragged leaf and None at "
            "every other."
        ) from None


def infer_example(first: Any, more: Iterator[Any], flags: Any) -> Any:
    """Return the spec of an example, of the first items of upstream.

    Leaves of bytes are ragged, and those that the caller says. Where he says none,
    arrays are whose length on axis 0 varies, and looking ends when all do.

    Args:
        first: the first item.
        more: those after it.
        flags: as in `RaggedRequest`.

    Raises:
        SpecError: the first item has no leaves, or some that cannot be stored.
        OptionError: the flags are not like it.
    """
    paths, leaves, treespec = flatten_with_paths(first)
    hint = about_lists(first, "example")
    if hint:
        raise SpecError(
            f"`example`, the first item of upstream, has lists of numbers.{hint}"
        )
    arrays = first_arrays(first, map(bytes_as_array, leaves), paths, "example")
    shapes: list[tuple[Any, ...]] = [array.shape for array in arrays]
    ragged = [isinstance(leaf, bytes | bytearray) for leaf in leaves]
    if flags is not None:
        ragged = flags_of(flags, treespec, "example")
        for is_one, shape, path in zip(ragged, shapes, paths, strict=True):
            if is_one and not shape:
                raise OptionError(
                    f"`ragged` names `example{path}`, which is a scalar; only arrays "
                    "have a length that varies."
                )
    else:
        fixed = {i for i, shape in enumerate(shapes) if shape and not ragged[i]}
        others: dict[int, tuple[Any, ...]] = {}
        for i in _find_varying(fixed, shapes, treespec, more, others):
            ragged[i] = True
        if others and not any(ragged):
            i = min(others)
            raise SpecError(
                f"`example{paths[i]}` has shape {[*shapes[i]]} in one example and "
                f"{[*others[i]]} in another; only the length on axis 0 may vary. Move "
                "the axis that varies to the front, or pad or cut the other axes to "
                "one shape."
            )
    fields = [
        Field((None, *shape[1:]) if is_one else shape, array.dtype)
        for is_one, shape, array in zip(ragged, shapes, arrays, strict=True)
    ]
    return stand_for(treespec, fields)


def has_rows(leaf: Any) -> bool:
    """Return True for bytes, and for an array that is no scalar."""
    return isinstance(leaf, bytes | bytearray) or len(shape_of(leaf)) > 0


def _find_varying(
    fixed: set[int],
    shapes: list[tuple[Any, ...]],
    treespec: Any,
    more: Iterator[Any],
    others: dict[int, tuple[Any, ...]],
) -> Iterator[int]:
    """Yield the leaves of `fixed` whose length on axis 0 is another in a later item.

    Shapes that differ otherwise are noted in `others`, the first of each leaf.
    """
    while fixed and (item := next(more, None)) is not None:
        try:
            leaves = leaves_of(item, treespec)
        except (ValueError, TypeError):
            return  # the buffer says what is wrong
        for i in [*fixed]:
            shape = shape_of(leaves[i])
            is_alike = len(shape) == len(shapes[i]) and shape[1:] == shapes[i][1:]
            if not is_alike:
                others.setdefault(i, shape)
            elif shape[0] != shapes[i][0]:
                fixed.discard(i)
                yield i
