"""`pad_value` of ragged leaves, as items of their dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf.errors import OptionError, SpecError, message
from echobuf.field import is_ragged
from echobuf.output_spec import OutputSpec
from echobuf.spec import Spec

_NUMBERS = (bool, int, float, complex, np.generic)


def pad_values(spec: Spec, given: Any) -> list[bytes]:
    """Return for each leaf one item that pads it, bit for bit.

    Args:
        spec: of one example.
        given: a number for all ragged leaves, or a pytree like the spec with a number
            for each of them.

    Raises:
        OptionError: the tree is not like the spec, or a dtype does not hold a number.
    """
    values = _values(spec, given)
    items = []
    for value, field, path in zip(values, spec.fields, spec.paths, strict=True):
        if is_ragged(field):
            items.append(_item(value, field.dtype, "pad_value" + path))
        else:
            items.append(bytes(field.dtype.itemsize))
    return items


def row_pads(spec: Spec, output: OutputSpec, given: Any) -> list[bytes]:
    """Return for each leaf of batches one item that pads it, in its own dtype.

    Args:
        spec: of one example.
        output: of batches.
        given: as for `pad_values`.

    Raises:
        OptionError: the dtype that `transform` makes does not hold a number.
    """
    values = _values(spec, given)
    return [
        _item(values[source], field.dtype, "pad_value" + path)
        if is_ragged(field)
        else bytes(field.dtype.itemsize)
        for (source, _), field, path in zip(
            output.plans, output.drawn.fields, output.drawn.paths, strict=True
        )
    ]


def _values(spec: Spec, given: Any) -> list[Any]:
    """Return the number for each leaf of the spec."""
    if isinstance(given, _NUMBERS):
        return [given] * len(spec.fields)
    try:
        return spec.flatten(given, "pad_value")
    except SpecError as error:
        raise OptionError(message(error)) from None


def _item(value: Any, dtype: np.dtype[Any], name: str) -> bytes:
    if not isinstance(value, _NUMBERS):
        raise OptionError(f"`{name}` is {value!r}; it must be a number.")
    if type(value) is int and value == 0:
        return bytes(dtype.itemsize)
    item = _convert(value, dtype)
    if item is None:
        raise OptionError(
            f"`{name}` is {value!r}, which {dtype} does not hold; give a number that "
            "it does."
        )
    return bytes(item.tobytes())


def _convert(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the number in a dtype, rounded if that is inexact; None if it has none."""
    if isinstance(value, bool | np.bool_) or dtype.kind == "b":
        same = isinstance(value, bool | np.bool_) and dtype.kind == "b"
        return np.asarray(value, dtype) if same else None
    if dtype.kind in "iu":
        held = np.iinfo(dtype)
        fits = np.isrealobj(value) and held.min <= value <= held.max
        return np.asarray(int(value), dtype) if fits and value == int(value) else None
    if dtype.kind in "mM" or (np.iscomplexobj(value) and dtype.kind != "c"):
        return None
    try:
        with np.errstate(all="ignore"):
            item = np.asarray(value).astype(dtype)
            finite, infinite = bool(np.isfinite(item)), bool(np.isinf(item))
    except (TypeError, ValueError, OverflowError):  # of dates, or of several fields
        return None
    keeps = finite if np.isfinite(value) else infinite == bool(np.isinf(value))
    return item if keeps else None
