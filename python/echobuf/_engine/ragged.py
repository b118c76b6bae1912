"""Ragged leaves of a buffer: checks of their options, and the core's form of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from echobuf._engine.padding import pad_values, row_pads
from echobuf.capacity import max_lengths, row_of, segments_of
from echobuf.errors import CapacityError, OptionError, SpecError
from echobuf.field import is_ragged, row_bytes
from echobuf.options import Options
from echobuf.output_spec import OutputSpec
from echobuf.ragged import Packed, Padded, Ragged
from echobuf.spec import Spec

Make = Callable[..., Any]
"""Makes a leaf of a batch of its values, and of its offsets, lengths or ids."""


def check(spec: Spec, options: Options, *, borrowed: bool) -> None:
    """Check the options of ragged leaves against the spec.

    Args:
        spec: of one example.
        options: the buffer's.
        borrowed: a server writes the slots.

    Raises:
        OptionError: they do not go together, or are not there yet for ragged leaves.
    """
    if not spec.is_ragged:
        if options.for_rows:
            raise OptionError(
                f"{options.for_rows}, but no leaf of `spec` is ragged; leave it "
                "out, or make axis 0 of a leaf None: `Field((None, ...), dtype)`."
            )
        return
    name = _first_name(spec)
    if borrowed and options.device != "cpu":
        raise _not_yet(
            name,
            f"examples come from a server, on `device` {options.device!r}",
            "use device='cpu', or let the loader read the data itself",
        )
    if borrowed and options.cuts:
        raise OptionError(
            "`overlong` is 'cut', and examples come from a server, which keeps all of "
            "them for this job; cut them in its upstream, and leave `overlong` out."
        )
    if options.pack_to is not None:
        _check_packing(spec, options.pack_to)
    _check_payload(spec, options)


def _check_packing(spec: Spec, pack_to: int) -> None:
    """Raise `OptionError` if there is a leaf that rows cannot have."""
    for field, path in zip(spec.fields, spec.paths, strict=True):
        if not is_ragged(field):
            raise OptionError(
                f"`pack_to` is {pack_to}, but `spec{path}` has the fixed shape "
                f"{field.shape}: several examples share a row. Leave the leaf out, or "
                "make it ragged, with a value for each of the example's."
            )


def check_output(spec: Spec, output: OutputSpec, options: Options) -> None:
    """Raise `OptionError` if `transform` makes what the options cannot have.

    Rows are not packed of leaves that it makes fixed; on a device no examples are mixed
    where leaves are ragged; and `pad_value` is for what is padded.
    """
    _check_pads(output, options)
    mixes = any(plan is not None and plan.mixes for _, plan in output.plans)
    if mixes and spec.is_ragged and options.device != "cpu":
        raise _not_yet(
            _first_name(spec),
            f"`transform` mixes examples, on `device` {options.device!r}",
            "use device='cpu', mix batches in the training step",
        )
    if options.pack_to is None:
        return
    for field, path in zip(output.drawn.fields, output.drawn.paths, strict=True):
        if not is_ragged(field):
            raise OptionError(
                f"`pack_to` is {options.pack_to}, and `transform{path}` makes "
                f"the leaf one of fixed shape, {field.shape}, so no rows are to be "
                "packed: leave `pack_to` out, or the window."
            )


def _check_pads(output: OutputSpec, options: Options) -> None:
    """Raise `OptionError` if there is a `pad_value`, and nothing that is padded."""
    pads = options.ragged == "padded" or options.pad_to is not None or options.packs
    if pads or not Options.pad_value.is_given(options.pad_value):
        return
    for rows, field in zip(output.rows, output.drawn.fields, strict=True):
        if rows is not None and not is_ragged(field):  # a window
            return
    raise OptionError(
        f"`pad_value` is {options.pad_value!r}, but nothing is padded with "
        "ragged='packed' and without `pad_to`, `pack_to` and windows of `transform`; "
        "leave `pad_value` out, or say ragged='padded'."
    )


def _first_name(spec: Spec) -> str:
    return next(
        f"`spec{path}`"
        for field, path in zip(spec.fields, spec.paths, strict=True)
        if is_ragged(field)
    )


def _not_yet(name: str, why: str, remedy: str) -> OptionError:
    return OptionError(
        f"{name} is ragged and {why}, which is not there yet for ragged leaves; "
        f"{remedy}, or pad the examples to one length."
    )


def _check_payload(spec: Spec, options: Options) -> None:
    given = options.payload_bytes
    if given is None:
        if options.packs:
            return
        for field, path in zip(spec.fields, spec.paths, strict=True):
            if is_ragged(field) and field.max_length is None:
                raise OptionError(
                    f"`payload_bytes` is None, and `spec{path}` has no `max_length`: "
                    "give `payload_bytes`, the bytes of all ragged leaves in the "
                    "window, or `Field(..., max_length=)` for each ragged leaf."
                )
        return
    row, segments = row_of(spec), segments_of(options)
    size = 1 if options.packs else options.batch_size
    if given < size * row and size > segments:
        raise OptionError(
            f"`payload_bytes` is {given:,}; it must be at least {size * row:,}: a row "
            f"of {row:,} bytes for each of `batch_size`, {size}, examples. It is to "
            "hold the ragged leaves of the whole window."
        )
    if given < segments * row:
        raise OptionError(
            f"`payload_bytes` is {given:,}; it must be at least {segments * row:,}: a "
            f"row of {row:,} bytes for each of the {segments} segments of the window."
        )


def core_arguments(spec: Spec, output: OutputSpec, options: Options) -> dict[str, Any]:
    """Return the arguments of `_core.BufferOptions` for ragged leaves, if any.

    Raises:
        OptionError: `pad_value` does not fit a leaf.
    """
    if not spec.is_ragged:
        return {}
    return {
        "rows": list(output.rows),
        "row_pads": row_pads(spec, output, options.pad_value),
        "max_lengths": max_lengths(spec, options),
        "pad_values": pad_values(spec, options.pad_value),
    }


def makers(spec: Spec, options: Options) -> list[Make | None]:
    """Return for each leaf of batches what makes it; None for fixed ones."""
    make: Make = Padded if options.ragged == "padded" else Ragged
    if options.packs:
        make = Packed
    return [make if is_ragged(field) else None for field in spec.fields]


# ---- sizes of what is put


def check_sizes(
    arrays: list[Any], spec: Spec, options: Options, *, stacked: bool, share: int
) -> None:
    """Raise `CapacityError` if an example is larger than a segment's share.

    Args:
        arrays: the prepared leaves of what is put.
        spec: of one example.
        options: the buffer's.
        stacked: ragged leaves are tuples of values and offsets of many examples.
        share: bytes; 0 for no limit.
    """
    if options.packs:
        _check_rows(arrays, spec, options, stacked=stacked)
    if not share:
        return
    if spec.batch_axis:
        _check_batch(arrays, spec, options, share)
        return
    sizes: Any = 0
    for array, field in zip(arrays, spec.fields, strict=True):
        if is_ragged(field):
            lengths = _lengths_of(array, stacked)
            if options.cuts and options.pack_to is not None:
                lengths = np.minimum(lengths, options.pack_to)
            sizes = sizes + lengths * row_bytes(field)
    worst = int(sizes.argmax()) if len(sizes) else 0
    if len(sizes) and sizes[worst] > share:
        name = f"example {worst} of `batch`" if stacked else "`example`"
        raise record_too_large(name, int(sizes[worst]), share, options)


def _check_batch(arrays: list[Any], spec: Spec, options: Options, share: int) -> None:
    """Raise `CapacityError` if a whole batch is larger than a segment's share."""
    rows = [
        (len(array[0]), field)
        for array, field in zip(arrays, spec.fields, strict=True)
        if is_ragged(field)
    ]
    size = sum(length * row_bytes(field) for length, field in rows)
    if size > share:
        examples = next(len(array[1]) for array in arrays if isinstance(array, tuple))
        name = f"the batch of {examples - 1} examples"
        raise record_too_large(name, size, share, options, "put smaller batches")


def _lengths_of(array: Any, stacked: bool) -> Any:
    return np.diff(array[1]) if stacked else np.array([len(array)])


def _check_rows(
    arrays: list[Any], spec: Spec, options: Options, *, stacked: bool
) -> None:
    """Raise `SpecError` if an example does not fit a row, or its leaves differ."""
    pack_to = options.pack_to
    what = "batch" if stacked else "example"
    first = _lengths_of(arrays[0], stacked)
    for array, path in zip(arrays, spec.paths, strict=True):
        lengths = _lengths_of(array, stacked)
        differs = lengths != first
        if len(lengths) == len(first) and differs.any():
            at = int(differs.argmax())
            raise SpecError(
                f"`{what}{path}` has {lengths[at]} rows"
                + (f" in its example {at}" if stacked else "")
                + f", but `{what}{spec.paths[0]}` has {first[at]}; with `pack_to` all "
                "leaves of an example are of one length."
            )
    if pack_to is None or options.cuts:
        return
    if len(first) and first.max() > pack_to:
        at = int(first.argmax())
        raise SpecError(
            f"`{what}{spec.paths[0]}` has {first[at]} rows"
            + (f" in its example {at}" if stacked else "")
            + f"; `pack_to` is {pack_to}. Make `pack_to` larger, split the example, or "
            "say overlong='cut' to leave the rest of it out."
        )


def record_too_large(
    name: str,
    size: int,
    share: int,
    options: Options,
    remedy: str = "cut the example",
) -> CapacityError:
    """Return the error for a record larger than a segment's share.

    Args:
        name: of the record.
        size: bytes of its ragged leaves.
        share: bytes.
        options: the buffer's.
        remedy: beside a larger `payload_bytes`.
    """
    segments = segments_of(options)
    return CapacityError(
        f"{name} has {size:,} bytes in its ragged leaves; a segment's share of "
        f"`payload_bytes` is {share:,}: {options.payload_bytes or 0:,} for "
        f"{segments} segments. Make `payload_bytes` at least {size * segments:,}, or "
        f"{remedy}."
    )
