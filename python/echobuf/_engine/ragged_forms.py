"""Forms in which many arrays of different lengths come: pairs, lists, other libraries'.

Each is brought into one of two: values and offsets, or a list of arrays. Nothing is
checked against a field here, and torch and Arrow are known by the names of their types.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from echobuf import hints
from echobuf.device_arrays import is_on_device, place
from echobuf.device_views import rows_from
from echobuf.errors import SpecError
from echobuf.field import Field
from echobuf.ragged import Packed, Padded
from echobuf.spec import as_array, as_first_array
from echobuf.trees import map_leaves

Array = np.ndarray[Any, Any]
Parts = tuple[Any, Any] | list[Any]
"""Values and offsets, of whatever type; or a list of arrays."""

_BYTES = (bytes, bytearray, memoryview)


class RaggedLeaf:
    """A ragged leaf of a batch, in a box that is no node of any tree.

    Args:
        parts: values and offsets, or a list of arrays, as `split` returns them.
        name: of the leaf.
    """

    def __init__(self, parts: Parts, name: str) -> None:
        self.parts = parts
        self._name = name

    def map(self, convert: Callable[[Any], Any]) -> RaggedLeaf:
        """Return the leaf with all arrays converted."""
        if isinstance(self.parts, tuple):
            values, offsets = self.parts
            return RaggedLeaf((convert(values), convert(offsets)), self._name)
        return RaggedLeaf([convert(each) for each in self.parts], self._name)

    def sample(self) -> Any:
        """Return one of its arrays; None if it has none."""
        if isinstance(self.parts, tuple):
            return self.parts[0]
        return self.parts[0] if self.parts else None

    def infer(self) -> Field:
        """Return the field of such a leaf.

        Raises:
            SpecError: it holds no arrays.
        """
        sample = self.sample()
        if sample is None:
            raise SpecError(
                f"`{self._name}` is an empty list in the first batch, which does not "
                "say what it holds; leave empty batches out."
            )
        array = as_first_array(bytes_as_array(sample), self._name)
        if not array.ndim:
            raise SpecError(f"`{self._name}` holds scalars; it must hold arrays.")
        return Field((None, *array.shape[1:]), array.dtype)

    def __len__(self) -> int:
        if isinstance(self.parts, tuple):
            return max(0, len(self.parts[1]) - 1)
        return len(self.parts)

    def __getitem__(self, part: slice) -> RaggedLeaf:
        """Return the arrays of a slice from some array on."""
        if isinstance(self.parts, list):
            return RaggedLeaf(self.parts[part], self._name)
        values, offsets = self.parts
        offsets = np.asarray(offsets)[slice(part.start, None)]
        if is_on_device(values):
            rows = rows_from(values, int(offsets[0]))
        else:
            rows = np.asarray(values)[offsets[0] :]
        pair = (rows, offsets - offsets[0])
        return RaggedLeaf(pair, self._name)


def split(leaf: Any, name: str) -> Parts | None:
    """Return a leaf as values and offsets, or a list of arrays; None for one array.

    Raises:
        SpecError: it is in a form that says less, or holds something else than arrays.
    """
    if isinstance(leaf, RaggedLeaf):
        return leaf.parts
    if isinstance(leaf, Padded | Packed):
        raise SpecError(
            f"`{name}` is a {type(leaf).__name__}; give its arrays alone, "
            "`x.to_list()`: padding is made when batches are drawn."
        )
    if isinstance(leaf, list):
        return leaf
    if isinstance(leaf, tuple):
        if len(leaf) != 2:
            raise SpecError(
                f"`{name}` is a tuple of {len(leaf)}; a tuple must be "
                "`(values, offsets)`. Give arrays as a list: `list(x)`."
            )
        return leaf
    if is_nested(leaf):
        return _split_nested(leaf, name)
    if is_arrow(leaf):
        return _split_arrow(leaf, name)
    return None


def bytes_as_array(leaf: Any) -> Any:
    """Return bytes as an array of uint8; anything else as it is."""
    if not isinstance(leaf, _BYTES):
        return leaf
    if isinstance(leaf, memoryview) and leaf.format != "B":
        return leaf
    return np.frombuffer(leaf, np.uint8)


def as_arrays(tree: Any) -> Any:
    """Return a tree of an example whose leaves of bytes are arrays."""
    return map_leaves(bytes_as_array, tree)


def check_offsets_place(offsets: Any, name: str) -> None:
    """Raise `SpecError` for offsets on a device."""
    if is_on_device(offsets):
        raise SpecError(
            f"`{name}` has its offsets on {place(offsets)}, and the host must know the "
            "lengths; give `echobuf.Ragged(values, offsets)` with offsets as a NumPy "
            "array, which `x.cpu()` or `x.get()` waits for."
        )


# ---- torch's


def is_nested(leaf: Any) -> bool:
    """Return True for a nested tensor of torch's."""
    return hints.is_of(leaf, "torch", "Tensor") and bool(leaf.is_nested)


def _split_nested(tensor: Any, name: str) -> Parts:
    tensor = tensor.detach()
    if "jagged" not in str(tensor.layout):
        return list(tensor.unbind())
    if getattr(tensor, "_ragged_idx", 1) != 1:
        raise SpecError(
            f"`{name}` is a nested tensor whose ragged axis is not axis 1; transpose "
            "it back."
        )
    if tensor.lengths() is not None:  # with gaps between its rows
        return list(tensor.unbind())
    check_offsets_place(tensor.offsets(), name)
    offsets = as_array(tensor.offsets(), name).astype(np.int64)  # of int32, some
    return tensor.values()[: offsets[-1]], offsets


# ---- Arrow's


def is_arrow(leaf: Any) -> bool:
    """Return True for an array of Arrow's, also one in chunks."""
    return any(hints.is_of(leaf, "pyarrow", name) for name in ("Array", "ChunkedArray"))


def _split_arrow(leaf: Any, name: str) -> tuple[Array, Array]:
    """Return values and offsets of an array of lists, or of binary strings.

    Nothing is copied for each list; the chunks of a column are joined.
    """
    if hasattr(leaf, "chunks"):
        chunks = [_split_arrow(each, name) for each in leaf.chunks]
        return _join(chunks or [_split_arrow(leaf.combine_chunks(), name)])
    if leaf.null_count:
        raise SpecError(
            f"`{name}` has {leaf.null_count} nulls; leave those examples out, or put "
            "empty lists in their place."
        )
    kind = str(leaf.type)
    if kind in ("binary", "large_binary"):
        return _of_binary(leaf, large=kind == "large_binary")
    if kind.startswith("fixed_size_list"):
        values = _of_values(leaf.flatten(), name)
        return values, np.arange(len(leaf) + 1, dtype=np.int64) * leaf.type.list_size
    if not hasattr(leaf, "offsets"):
        raise SpecError(
            f"`{name}` is an Arrow array of {kind}; it must be one of lists, a list "
            "for each example, or of binary strings."
        )
    offsets = leaf.offsets.to_numpy().astype(np.int64)
    return _of_values(leaf.flatten(), name), offsets - offsets[:1]


def _of_binary(leaf: Any, *, large: bool) -> tuple[Array, Array]:
    _, bounds, data = leaf.buffers()
    if not len(leaf) or data is None:
        return np.empty(0, np.uint8), np.zeros(len(leaf) + 1, np.int64)
    offsets = np.frombuffer(bounds, np.int64 if large else np.int32)
    offsets = offsets[leaf.offset : leaf.offset + len(leaf) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def _of_values(values: Any, name: str) -> Array:
    """Return the values of lists; those of lists of one size, with their axes."""
    shape: list[int] = []
    while str(values.type).startswith("fixed_size_list"):
        shape.append(values.type.list_size)
        values = values.flatten()
    try:
        return np.asarray(values.to_numpy(zero_copy_only=True)).reshape(-1, *shape)
    except Exception as error:  # of a package that is not imported here
        if not type(error).__name__.startswith("Arrow"):
            raise
        raise SpecError(
            f"`{name}` holds lists of {values.type} that are no plain numbers, or have "
            "nulls in them; convert them with `pyarrow.compute`."
        ) from None


def _join(chunks: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    if len(chunks) == 1:
        return chunks[0]
    ends = itertools.accumulate((len(values) for values, _ in chunks), initial=0)
    offsets = [part[1:] + end for (_, part), end in zip(chunks, ends, strict=False)]
    values = np.concatenate([values for values, _ in chunks])
    return values, np.concatenate([np.zeros(1, np.int64), *offsets])
