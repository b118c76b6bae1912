"""Items of upstream: the spec that the first ones say, parts of batches, adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from echobuf import nodes
from echobuf._engine.carry import is_object
from echobuf._engine.ragged_forms import RaggedLeaf, bytes_as_array
from echobuf.device_arrays import is_on_device, on_cpu_refused
from echobuf.device_views import rows_from
from echobuf.errors import OptionError, SpecError, message
from echobuf.field import Field
from echobuf.loader import source
from echobuf.loader.ragged import flags_of
from echobuf.loader_buffer import LoaderBuffer
from echobuf.spec import (
    about_lists,
    as_array,
    as_first_array,
    first_arrays,
    of_all_leaves,
    shape_of,
)
from echobuf.trees import (
    flatten,
    flatten_with_paths,
    leaves_of,
    map_leaves,
    paths_of_none,
    stand_for,
)

MOST_AHEAD = 256  # items that are looked at, so that their lengths are seen to vary


# ---- the first item


def refuse_on_device(item: Any, what: str) -> None:
    """Refuse a first item with leaves on a device, where the CPU stores them.

    Args:
        item: the first of upstream.
        what: its name in the error: "example" or "batch".

    Raises:
        SpecError: it names all such leaves, and both places.
    """
    paths, leaves, _ = flatten_with_paths(item)
    errors: list[tuple[str, object, SpecError]] = []
    for leaf, path in zip(leaves, paths, strict=True):
        array = leaf.sample() if isinstance(leaf, RaggedLeaf) else leaf
        if is_on_device(array):
            error = on_cpu_refused(array, what + path)
            errors.append((what + path, type(array), error))
    if errors:
        raise of_all_leaves(errors)


def check_example(item: Any) -> None:
    """Refuse a first item without leaves, or with some that cannot be stored."""
    paths, leaves, _ = flatten_with_paths(item)
    arrays_of_first(item, leaves, paths, "example")


def arrays_of_first(
    item: Any,
    leaves: Iterable[Any],
    paths: Iterable[str],
    what: str,
    read: Callable[[Any, str], Any] = as_first_array,
    *,
    ragged: bool = False,
) -> list[Any]:
    """Return the leaves of the first item as arrays.

    Args:
        item: the first of upstream; none of its leaves is carried.
        leaves: of it; a leaf of several lengths is any array.
        paths: of the leaves.
        what: its name in the error: "example" or "batch".
        read: makes an array of a leaf with a name.
        ragged: bytes are arrays.

    Raises:
        SpecError: it names all leaves that are no arrays, and says what carries them.
    """
    leaves = [*leaves]
    try:
        return first_arrays(item, leaves, paths, what, read)
    except SpecError as error:
        are_objects = [is_object(leaf, ragged=ragged) for leaf in leaves]
        if not any(are_objects):
            raise
        line = _LACKS_ARRAYS if all(are_objects) else _NOT_CARRIED
        raise SpecError(f"{line.format(what)} {message(error)}") from error.__cause__


_NOT_CARRIED = (
    "the first `{0}` of upstream has leaves that are no arrays: say carry=True, the "
    "default, and they come back in batches, as lists of the same objects. Or make "
    "arrays of them."
)
_LACKS_ARRAYS = (
    "the first `{0}` of upstream has no array: what is none is carried beside at least "
    "one, such as the number of the example. Yield one, or make arrays of the leaves."
)


def refuse_none(item: Any, what: str) -> None:
    """Refuse a first item with None in it, which would come back in every batch.

    Args:
        item: the first of upstream.
        what: its name in the error: "example" or "batch".
    """
    paths, leaves, treespec = flatten_with_paths(item)
    empty = [path for path in paths_of_none(treespec) if path]
    if empty:
        leaves = [0 if isinstance(leaf, RaggedLeaf) else leaf for leaf in leaves]
        leaves += [None] * len(empty)
        arrays_of_first(item, leaves, [*paths, *empty], what)


def infer_batch(batch: Any) -> tuple[Any, int]:
    """Return the spec of one example of a batch, and the length of that batch.

    Args:
        batch: of arrays, and of `RaggedLeaf`s.

    Raises:
        SpecError: a leaf cannot be stored, or leaves hold different numbers.
    """
    paths, leaves, treespec = flatten_with_paths(batch)
    fields, lengths = [], []
    dense = [0 if isinstance(leaf, RaggedLeaf) else leaf for leaf in leaves]
    is_ragged = any(isinstance(leaf, RaggedLeaf) for leaf in leaves)
    arrays = arrays_of_first(batch, dense, paths, "batch", ragged=is_ragged)
    for path, leaf, array in zip(paths, leaves, arrays, strict=True):
        if isinstance(leaf, RaggedLeaf):
            fields.append(leaf.infer())
            lengths.append(len(leaf))
            continue
        if array.ndim == 0:
            raise SpecError(
                f"`batch{path}` is a scalar; with batched=True every leaf has the "
                "batch axis as axis 0. Pass batched=False if upstream yields examples."
                f"{_about_lists(batch)}"
            )
        fields.append(Field(array.shape[1:], array.dtype))
        lengths.append(array.shape[0])
    if any(length != lengths[0] for length in lengths):
        raise SpecError(
            f"the leaves of the first batch hold {lengths} examples on axis 0; they "
            "must hold the same number. Pass batched=False if upstream yields "
            "examples. Where the lengths of examples vary, say which leaves are "
            "ragged: `ragged` may be a pytree like a batch, with `payload_bytes=`."
            f"{_about_lists(batch)}"
        )
    return stand_for(treespec, fields), lengths[0]


def _about_lists(batch: Any) -> str:
    if isinstance(batch, list):
        return (
            " A list of examples is no batch: stack them (torch: `default_collate`), "
            "or leave batching to echobuf."
        )
    return about_lists(batch, "batch")


def as_whole(example: Any, extent: int) -> Any:
    """Return the spec of batches of `extent` examples, from that of one example."""
    return map_leaves(
        lambda field: Field((extent, *field.shape), field.dtype),
        example,
        is_leaf=lambda node: isinstance(node, Field),
    )


def infer_ragged_example(first: Any, more: Iterator[Any], flags: Any) -> Any:
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
    arrays = arrays_of_first(
        first, map(bytes_as_array, leaves), paths, "example", ragged=True
    )
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


# ---- parts of batches


def skip(item: Any, count: int) -> Any:
    """Return a batch without its first `count` examples."""
    return map_leaves(lambda leaf: _skip_rows(leaf, count), item)


def _skip_rows(leaf: Any, count: int) -> Any:
    if isinstance(leaf, RaggedLeaf):
        return leaf[count:]
    if is_on_device(leaf):
        return rows_from(leaf, count)
    return as_array(leaf, "batch")[count:]


def length_of(item: Any) -> int:
    """Return the number of examples in a batch, as its first array has them."""
    leaves, _ = flatten(item)
    arrays = (leaf for leaf in leaves if not is_object(leaf, ragged=False))
    first = next(arrays, None)
    if isinstance(first, RaggedLeaf):
        return len(first)
    if first is None:
        return 0
    is_there = is_on_device(first)
    shape = shape_of(first) if is_there else as_array(first, "batch").shape
    return int(shape[0]) if shape else 0


# ---- frameworks


class Adapter:
    """NumPy's conversion of items and batches, and the base of other frameworks'."""

    takes_none = False  # as a part of items without leaves
    nested = False  # ragged leaves of batches are nested tensors

    def yields_batches(self, upstream: Iterable[Any]) -> bool:
        """Say if it is a DataLoader, or the like, that makes batches."""
        return source.yields_batches(upstream)

    def learn(self, item: Any) -> None:
        """Make nodes of the containers in an item."""
        nodes.learn(item)

    def read_first(self, item: Any) -> Any:
        """Return the first item, from which the spec is inferred."""
        self.learn(item)
        return item

    def decoder(self) -> Callable[[Any], Any]:
        """Return a function that converts items into the form that the buffer takes."""
        return _as_it_is

    def foreign(self) -> list[str | None]:
        """Return of each leaf of items torch's name of its dtype, if NumPy lacks it.

        After `read_first`; the list may be empty.
        """
        return []

    def in_worker(self) -> Adapter:
        """Return an adapter for a worker process, which is pickled."""
        return type(self)()

    def fit(self, buffer: LoaderBuffer) -> None:
        """Make the buffer return batches of the framework's arrays.

        Raises:
            EchobufError: it has no arrays for them.
        """


def _as_it_is(item: Any) -> Any:
    return item
