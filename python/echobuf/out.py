"""Arrays of the caller's that batches are drawn into: `out` of `next_batch`."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf.errors import OptionError, SpecError
from echobuf.field import Field, check_dtype, is_ragged, row_shape
from echobuf.options import Options
from echobuf.ragged import Packed, Padded, Ragged
from echobuf.spec import Spec, as_array, make_spec

Array = np.ndarray[Any, Any]


class OutArrays:
    """Checks what is given as `out`, where the core does not take it as it is.

    Args:
        spec: of one example, or of one whole batch.
        lead: extents before the shape that the spec says: `(batch_size,)` or `()`.
    """

    def __init__(self, spec: Spec, lead: tuple[int, ...]) -> None:
        self._spec = spec
        self._lead = lead

    def check(self, leaves: list[Any]) -> list[Array]:
        """Return the leaves as plain writable arrays that share the caller's memory."""
        arrays: list[Array] = []
        paths = self._spec.paths
        for leaf, field, path in zip(leaves, self._spec.fields, paths, strict=True):
            array = self._check_leaf(leaf, field, "out" + path)
            for other, other_path in zip(arrays, paths, strict=False):
                if _share_memory(array, other):
                    raise SpecError(
                        f"`out{path}` overlaps `out{other_path}`; give arrays that "
                        "share no memory."
                    )
            arrays.append(array)
        return arrays

    def _check_leaf(self, leaf: Any, field: Field, name: str) -> Array:
        array = self._view(leaf, field, name)
        if not array.flags.writeable:
            raise SpecError(f"`{name}` is read-only; give a writable array.")
        check_dtype(array, field, name)
        if array.shape != self._lead + field.shape:
            raise SpecError(
                f"`{name}` has shape {list(array.shape)}; it must be "
                f"{list(self._lead + field.shape)}, a whole batch."
            )
        if _overlaps_itself(array):
            raise SpecError(
                f"`{name}` overlaps itself (strides {array.strides}); give an array "
                "whose elements have memory of their own."
            )
        return array

    def _view(self, leaf: Any, field: Field, name: str) -> Array:
        """Return the memory of a leaf, of whatever shape and dtype it is."""
        if isinstance(leaf, np.ma.MaskedArray):
            raise SpecError(
                f"`{name}` is a masked array, whose mask would stay as it is; give a "
                "plain one."
            )
        if isinstance(leaf, np.ndarray):
            return as_array(leaf, name)
        return _host_view(leaf, name)


def _host_view(leaf: Any, name: str) -> Array:
    """Return a view of a tensor's memory, never a copy: a batch would be lost there."""
    array = as_array(leaf, name)
    address = getattr(leaf, "data_ptr", None)
    shares = (
        address() == array.ctypes.data
        if callable(address)
        else hasattr(leaf, "__array_interface__")
    )
    if not shares:
        raise SpecError(
            f"`{name}` is a {type(leaf).__name__}, whose memory cannot be written "
            "into; give a NumPy array or a CPU tensor."
        )
    return array


def _overlaps_itself(array: Array) -> bool:
    """Return True unless each axis steps over all that the smaller axes cover."""
    covered = array.itemsize
    axes = sorted(
        (abs(stride), extent)
        for stride, extent in zip(array.strides, array.shape, strict=True)
        if extent > 1
    )
    if array.size == 0:
        return False
    for stride, extent in axes:
        if stride < covered:
            return True
        covered = stride * (extent - 1) + covered
    return False


def _share_memory(one: Array, other: Array) -> bool:
    if not np.may_share_memory(one, other):
        return False
    try:
        return np.shares_memory(one, other, max_work=10_000)  # type: ignore[arg-type]
    except Exception as error:  # TooHardError moved between NumPy's versions
        if type(error).__name__ != "TooHardError":
            raise
        return True


# ---- ragged leaves

_SHAPES = 64  # of memory, whose checks are kept
_IDS = ("segment_ids", "positions", "lengths")


@dataclass(frozen=True)
class Layout:
    """The shapes of a caller's arrays.

    Attributes:
        room: the examples (of packed rows, the rows) that there is room for.
        rows: of each leaf: the rows that there is room for; 0 for a fixed one.
        spec: of the arrays, each by itself.
        extra: of each array: the entries on axis 0 that it has beside one for each
            example; None where all belong to every batch.
    """

    room: int
    rows: tuple[int, ...]
    spec: Spec
    extra: tuple[int | None, ...]

    def valid(self, count: int) -> list[int]:
        """Return how many entries of each array are those of a batch of `count`."""
        return [
            field.shape[0] if more is None else count + more
            for field, more in zip(self.spec.fields, self.extra, strict=True)
        ]


class RaggedOut:
    """The forms of the leaves that batches are drawn into, some of which are ragged."""

    def __init__(self, spec: Spec, options: Options) -> None:
        self._spec = spec
        self._row_length = options.row_length
        self._is_packed = options.ragged == "packed"
        self._size = None if options.max_rows else options.batch_size
        if spec.batch_axis:
            self._size = spec.most_examples
        self._form: Any = Ragged if self._is_packed else Padded
        if options.packs:
            self._form = Packed
        self._layouts: OrderedDict[tuple[Any, ...], Layout] = OrderedDict()

    def take_apart(self, leaves: list[Any]) -> tuple[list[Any], Layout]:
        """Return the arrays of the leaves, and their shapes.

        Of a ragged leaf these are its values, and its offsets or lengths; of packed
        rows the values of all leaves, and then segments, positions and lengths.

        Raises:
            SpecError: names the leaf that is of another form, or has no such shape.
        """
        arrays: list[Any] = []
        ids: tuple[Any, ...] = ()
        rows: list[int] = []
        for leaf, field, path in zip(
            leaves, self._spec.fields, self._spec.paths, strict=True
        ):
            name = "out" + path
            if not is_ragged(field):
                arrays.append(leaf)
                rows.append(0)
                continue
            values, *rest = self._parts(leaf, name)
            arrays.append(values)
            if self._row_length:
                rows.append(self._row_length)
                ids = self._same_ids(ids, rest, name)
                continue
            axis = 0 if self._is_packed else 1
            rows.append(_extent(values, axis, f"{name}.values"))
            arrays.append(rest[0])
        arrays += ids
        return arrays, self._layout(self._room(arrays), tuple(rows))

    def refuse_functions(self) -> None:
        """Raise `OptionError` if functions make ragged leaves, which have no size."""
        if self._spec.is_ragged:
            raise OptionError(
                "`out` is given, and `transform` has a Lambda, whose results are "
                "ragged; leave `out` out, or call the function on the batch."
            )

    def first(self, leaves: list[Any], count: int) -> list[Any]:
        """Return the leaves of a batch of `count` examples, or rows that are packed.

        Those of ragged leaves are views, but for the values of `Ragged`, which say by
        `offsets` how many of them are valid.
        """
        cut = []
        for leaf, field in zip(leaves, self._spec.fields, strict=True):
            if not is_ragged(field):
                cut.append(leaf[:count])
            elif self._form is Ragged:
                cut.append(Ragged(leaf[0], leaf[1][: count + 1]))
            else:
                cut.append(self._form(*(part[:count] for part in leaf)))
        return cut

    def refusal(self, layout: Layout, needed: list[int], count: int) -> SpecError:
        """Return the error for a batch that `out` has no room for."""
        if count > layout.room:
            return SpecError(
                f"`out` has room for {layout.room} examples; the next batch has "
                f"{count}. Give arrays for as many: a batch has at most `window` "
                "examples. The next call draws the same batch."
            )
        text = self._too_few_rows(layout.rows, needed, "out", "has")
        return SpecError(
            f"{text} Give an array with room for the longest batch, or leave `out` "
            "out. The next call draws the same batch."
        )

    def refusal_of_replay(self, rows: list[int], needed: list[int]) -> SpecError:
        """Return the error for a batch that a captured draw has no room for."""
        text = self._too_few_rows(rows, needed, "out", "had, as it was captured,")
        return SpecError(
            f"{text} Nothing is lost: draw this batch with `next_batch` outside the "
            "graph, or capture a draw with room for the longest batch."
        )

    def _too_few_rows(self, rows: Any, needed: list[int], what: str, has: str) -> str:
        for have, need, path in zip(rows, needed, self._spec.paths, strict=True):
            if need > have:
                axis = 0 if self._is_packed else 1
                return (
                    f"`{what}{path}.values` {has} {have} rows on axis {axis}; the next "
                    f"batch has {need}."
                )
        raise AssertionError(needed)

    # ---- shapes

    def _parts(self, leaf: Any, name: str) -> tuple[Any, ...]:
        """Return the arrays of a ragged leaf."""
        fields = self._form._fields
        right = isinstance(leaf, tuple) and len(leaf) == len(fields)
        other = (Ragged, Padded, Packed)
        if not right or (isinstance(leaf, other) and not isinstance(leaf, self._form)):
            raise SpecError(
                f"`{name}` is of type {type(leaf).__name__}; it must be an "
                f"`echobuf.{self._form.__name__}({', '.join(fields)})` of arrays to "
                "write into."
            )
        parts: tuple[Any, ...] = tuple(leaf)
        return parts

    def _same_ids(
        self, ids: tuple[Any, ...], own: list[Any], name: str
    ) -> tuple[Any, ...]:
        """Return the arrays that say which example each value is of."""
        if not ids:
            return tuple(own)
        for one, other, part in zip(ids, own, _IDS, strict=True):
            if one is not other and _place(one) != _place(other):
                raise SpecError(
                    f"`{name}.{part}` lies in other memory than that of the first "
                    "leaf; all leaves of packed rows share it: give the same array."
                )
        return ids

    def _room(self, arrays: list[Any]) -> int:
        """Return how many examples there is room for."""
        if self._size is not None:
            return self._size
        path = self._spec.paths[0]
        if not is_ragged(self._spec.fields[0]):
            return _extent(arrays[0], 0, f"out{path}")
        if not self._is_packed:
            return _extent(arrays[1], 0, f"out{path}.lengths")
        return max(_extent(arrays[1], 0, f"out{path}.offsets") - 1, 0)

    def _layout(self, room: int, rows: tuple[int, ...]) -> Layout:
        key = (room, rows)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = self._lay_out(room, rows)
            while len(self._layouts) > _SHAPES:
                self._layouts.popitem(last=False)
        return layout

    def _lay_out(self, room: int, rows: tuple[int, ...]) -> Layout:
        fields: list[Field] = []
        paths: list[str] = []
        extra: list[int | None] = []
        lines = self._form is Ragged
        first = ""
        for field, path, length in zip(
            self._spec.fields, self._spec.paths, rows, strict=True
        ):
            if not is_ragged(field):
                of_one = field.shape[len(self._spec.batch_axis) :]
                fields.append(Field((room, *of_one), field.dtype))
                paths.append(path)
                extra.append(0)
                continue
            first = first or path
            lead = (length,) if lines else (room, length)
            fields.append(Field((*lead, *row_shape(field)), field.dtype))
            paths.append(f"{path}.values")
            extra.append(None if lines else 0)
            if not self._row_length:
                fields.append(Field((room + lines,), np.int64))
                paths.append(f"{path}.{self._form._fields[1]}")
                extra.append(int(lines))
        if self._row_length:
            marks = Field((room, self._row_length), np.int32)
            fields += [marks, marks, Field((room,), np.int64)]
            paths += [f"{first}.{part}" for part in _IDS]
            extra += [0, 0, 0]
        spec = dataclasses.replace(make_spec(fields), paths=tuple(paths))
        return Layout(room, rows, spec, tuple(extra))


def memory_of(
    spec: Spec, rows: Sequence[int], addresses: list[int], *, packs: bool
) -> tuple[list[tuple[int, int, int]], tuple[int, int, int]]:
    """Return the arrays of `take_apart` as the core takes them, by their addresses.

    `rows`: that each leaf has room for; 0 for a fixed one.
    """
    each = iter(addresses)
    leaves = [
        (next(each), next(each) if is_ragged(field) and not packs else 0, length)
        for field, length in zip(spec.fields, rows, strict=True)
    ]
    segments, positions, lengths = each if packs else (0, 0, 0)
    return leaves, (segments, positions, lengths)


def _shape_of(array: Any, name: str) -> tuple[int, ...]:
    shape = getattr(array, "shape", None)
    if shape is None:
        shape = getattr(array, "__cuda_array_interface__", {}).get("shape")
    if shape is None:
        raise SpecError(
            f"`{name}` is of type {type(array).__name__}; give an array or a tensor "
            "to write into."
        )
    return tuple(shape)


def _extent(array: Any, axis: int, name: str) -> int:
    shape = _shape_of(array, name)
    if len(shape) <= axis:
        raise SpecError(
            f"`{name}` has shape {list(shape)}; it must have {axis + 1} axes or more."
        )
    return int(shape[axis])


def _place(array: Any) -> tuple[Any, ...]:
    """Return where an array lies, and as what; arrays of one place are the same."""
    address = getattr(array, "data_ptr", None)
    if callable(address):
        at = address()
    elif hasattr(array, "ctypes"):
        at = array.ctypes.data
    else:
        interface = getattr(array, "__cuda_array_interface__", None)
        at = interface["data"][0] if interface else id(array)
    shape = getattr(array, "shape", None)
    return at, str(getattr(array, "dtype", None)), None if shape is None else (*shape,)
