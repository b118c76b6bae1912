"""Arrays of the caller: put, or written into as `out`; checked leaf by leaf."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from echobuf import _core, hints
from echobuf._engine.carry import is_object
from echobuf._engine.ragged_arrays import read_one, read_stacked
from echobuf._engine.versions import Versions
from echobuf.errors import SpecError, message
from echobuf.field import Field, as_example, check_dtype, is_ragged
from echobuf.out import Array
from echobuf.spec import Spec, as_array, of_all_leaves

Core = _core.Buffer | _core.DeviceBuffer | _core.SharedRing
CheckSizes = Callable[[list[Any], bool], None]


def put_tree(
    core: Core,
    tree: Any,
    spec: Spec,
    stacked: bool,
    timeout: float | None,
    check_sizes: CheckSizes | None = None,
    versions: Versions | None = None,
) -> tuple[int, int] | None:
    """Put a tree whose leaves the core does not take as they are, as arrays.

    Args:
        core: puts them.
        tree: of arrays, and what stands for them.
        spec: of one example, or of one whole batch.
        stacked: examples, or whole batches, are stacked on axis 0.
        timeout: seconds to wait for room.
        check_sizes: checks the prepared leaves of a spec with ragged ones.
        versions: of all examples, or of each.

    Returns:
        None, or the code that the put has ended with, and how many were put.

    Raises:
        SpecError: says what does not fit; nothing was put.
    """
    leaves = spec.flatten(tree, "batch" if stacked else "example")
    if stacked and spec.batch_axis and spec.is_ragged:
        return _put_batches(core, leaves, spec, timeout, check_sizes, versions)
    arrays = prepare_put(leaves, spec, stacked=stacked)
    if check_sizes is not None:
        check_sizes(arrays, stacked)
    return core.put(arrays, stacked, timeout, versions)


def _put_batches(
    core: Core,
    leaves: list[Any],
    spec: Spec,
    timeout: float | None,
    check_sizes: CheckSizes | None,
    versions: Versions | None,
) -> tuple[int, int] | None:
    """Put whole batches with ragged leaves, one by one once all were checked."""
    batches = []
    for number, batch in enumerate(split_batches(leaves, spec)):
        try:
            batches.append(prepare_put(batch, spec, stacked=False))
        except SpecError as error:
            raise SpecError(f"batch {number} of those put: {message(error)}") from None
        if check_sizes is not None:
            check_sizes(batches[-1], False)
    if isinstance(versions, np.ndarray) and len(versions) != len(batches):
        return _core.VERSIONS, len(batches)
    end = None if timeout is None else time.monotonic() + timeout
    for accepted, arrays in enumerate(batches):
        left = None if end is None else max(0.0, end - time.monotonic())
        version = versions[[accepted]] if isinstance(versions, np.ndarray) else versions
        outcome = core.put(arrays, False, left, version)
        if outcome is not None:
            return outcome[0], accepted
    return None


def split_batches(leaves: list[Any], spec: Spec) -> list[list[Any]]:
    """Return the leaves of each of several whole batches."""
    counts = []
    for leaf, field, path in zip(leaves, spec.fields, spec.paths, strict=True):
        is_list = isinstance(leaf, list)
        if not is_list and (is_ragged(field) or not getattr(leaf, "shape", ())):
            raise SpecError(
                f"`batch{path}` is of type {type(leaf).__name__}; with unit='batch' "
                "`put_batch` takes several batches, in a list at each ragged leaf. To "
                "put one batch, use `put`."
            )
        counts.append(len(leaf))
        if counts[-1] != counts[0]:
            raise SpecError(
                f"`batch{path}` has {counts[-1]} batches, but `batch{spec.paths[0]}` "
                f"has {counts[0]}; all leaves must have the same number."
            )
    return [[leaf[i] for leaf in leaves] for i in range(counts[0])]


def prepare_put(leaves: list[Any], spec: Spec, *, stacked: bool) -> list[Any]:
    """Return the leaves of what is put, as arrays that the core takes.

    A ragged leaf of stacked examples, or of a whole batch, becomes a tuple of values
    and offsets.

    Args:
        leaves: in the order of the spec.
        spec: of one example, or of one whole batch.
        stacked: examples, or whole batches, are stacked on axis 0.

    Raises:
        SpecError: names the leaves that do not fit.
    """
    what = "batch" if stacked else "example"
    whole = bool(spec.batch_axis)  # which what is put may fall short of
    arrays: list[Any] = []
    errors: list[tuple[str, object, SpecError]] = []
    for leaf, field, path in zip(leaves, spec.fields, spec.paths, strict=True):
        try:
            arrays.append(
                read_leaf(leaf, field, what + path, stacked=stacked, whole=whole)
            )
        except SpecError as error:
            errors.append((what + path, type(leaf), error))
    if errors:
        refusal = of_all_leaves(errors)
        if any(_is_object(leaf, ragged=spec.is_ragged) for leaf in leaves):
            refusal = SpecError(f"{message(refusal)} {_IN_ALL}")
        raise refusal from errors[0][2].__cause__
    if spec.is_ragged and (stacked or whole):
        _check_counts(arrays, spec, what)
    else:
        _check_lengths(arrays, spec, what, stacked=stacked)
    return arrays


_IN_ALL = (
    "A leaf is an array in all examples, or in none: a loader carries what is none, an "
    "`EchoBuffer` takes arrays alone."
)


def _is_object(leaf: Any, *, ragged: bool) -> bool:
    is_list = isinstance(leaf, list | tuple)  # of numbers
    return is_object(leaf, ragged=ragged) and not is_list


def read_leaf(leaf: Any, field: Field, name: str, *, stacked: bool, whole: bool) -> Any:
    """Return one leaf of what is put, as `prepare_put` does.

    Raises:
        SpecError: it does not fit the field.
    """
    if is_ragged(field):
        read = read_stacked if stacked or whole else read_one
        return read(leaf, as_example(field), name)
    array = as_number(leaf, field, name)
    if array is None:
        array = as_array(leaf, name)
    check_dtype(array, field, name)
    _check_shape(array, leaf, field, name, stacked=stacked, whole=whole)
    return array if array.flags.c_contiguous else array.copy(order="C")


def _check_shape(
    array: Array, leaf: Any, field: Field, name: str, *, stacked: bool, whole: bool
) -> None:
    wanted: list[str] = [str(extent) for extent in field.shape]
    if whole:
        wanted[0] = f"up to {wanted[0]}"
    if stacked:
        wanted.insert(0, "n")
    inner = array.shape[1:] if stacked else array.shape
    fits = array.ndim == len(wanted) and (
        inner == field.shape
        or (whole and inner[1:] == field.shape[1:] and inner[0] <= field.shape[0])
    )
    if not fits:
        axes = [
            axis
            for axis, extent in enumerate(field.shape)
            if array.ndim == len(wanted) and inner[axis] != extent
        ]
        hint = " " + (
            _of_batches(array, field)
            if whole
            else hints.to_fit(
                leaf, varies=axes[0] if len(axes) == 1 else None, stacked=stacked
            )
        )
        if stacked and inner == field.shape[1:]:
            hint = " To put one example, use `put`."
        elif not stacked and array.shape[1:] == field.shape:
            hint = " To put examples stacked on axis 0, use `put_batch`."
        raise SpecError(
            f"`{name}` has shape {list(array.shape)}; the spec says "
            f"[{', '.join(wanted)}].{hint}"
        )


_SHORTER = (
    "Only shorter batches fit: let the first one be the longest, cut longer ones in "
    "`collate_fn`, or echo examples in place of batches (a loader: leave `unit` out)."
)


def _of_batches(array: Array, field: Field) -> str:
    """Return a hint for a whole batch that does not fit the first one."""
    if array.ndim == len(field.shape) and array.shape[1:] == field.shape[1:]:
        return _SHORTER
    return (
        "Batches may differ in length alone: pad the examples of all batches to one "
        "shape in `collate_fn`. Or let axis 1 vary: say which leaves do to a loader, "
        "`ragged={'tokens': 'padded', 'label': None}`, with `payload_bytes=`."
    )


def _check_lengths(
    arrays: list[Array], spec: Spec, what: str, *, stacked: bool
) -> None:
    for axis in range(stacked + len(spec.batch_axis)):
        first = arrays[0].shape[axis]
        for array, path in zip(arrays, spec.paths, strict=True):
            if array.shape[axis] != first:
                raise SpecError(
                    f"`{what}{path}` has {array.shape[axis]} entries on axis {axis}, "
                    f"but `{what}{spec.paths[0]}` has {first}; all leaves must have "
                    "the same number."
                )


def _check_counts(arrays: list[Any], spec: Spec, what: str) -> None:
    """Raise `SpecError` unless all leaves hold as many examples, and not too many."""
    counts = [
        len(array) if isinstance(array, np.ndarray) else len(array[1]) - 1
        for array in arrays
    ]
    for count, path in zip(counts, spec.paths, strict=True):
        if count != counts[0]:
            raise SpecError(
                f"`{what}{path}` holds {count} examples, but `{what}{spec.paths[0]}` "
                f"holds {counts[0]}; all leaves must hold the same number."
            )
    if spec.batch_axis and counts[0] > spec.most_examples:
        raise SpecError(
            f"`{what}{spec.paths[0]}` holds {counts[0]} examples; the spec says up to "
            f"{spec.most_examples}. {_SHORTER}"
        )


_KINDS = {bool: "b", int: "iu", float: "f", complex: "c"}


def as_number(leaf: Any, field: Field, name: str) -> np.ndarray[Any, Any] | None:
    """Return a Python number as an array of the field's dtype, if it is of that kind.

    An int goes into integers of any size, a float into floats and a complex into
    complex numbers, which are rounded; an int is no float, and a bool no int.

    Returns:
        None for anything else.

    Raises:
        SpecError: it is beyond what the dtype holds.
    """
    if field.shape or field.dtype.kind not in _KINDS.get(type(leaf), ""):
        return None
    if type(leaf) is int:
        held = np.iinfo(field.dtype)
        if not held.min <= leaf <= held.max:
            raise SpecError(
                f"`{name}` is {_brief(leaf)}; {field.dtype} holds {held.min} to "
                f"{held.max}."
            )
    with np.errstate(over="ignore"):
        array = np.array(leaf, field.dtype)
    if not np.isfinite(array) and np.isfinite(leaf):
        raise SpecError(
            f"`{name}` is {leaf!r}; {field.dtype} holds up to "
            f"{np.finfo(field.dtype).max!s}."
        )
    return array


def _brief(number: int) -> str:
    if number.bit_length() <= 128:
        return str(number)
    return f"an int of {number.bit_length()} bits"
