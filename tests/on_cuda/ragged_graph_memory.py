"""Examples for graphs of ragged leaves, and device memory that batches are drawn to."""

from __future__ import annotations

from typing import Any

import numpy as np

import echobuf
from echobuf import Field, Packed, Padded, Ragged

SPEC = {
    "id": Field((), np.int64),
    "tokens": Field((None,), np.int32),
    "points": Field((None, 3), np.uint8),
}


def example(
    number: int, length: int | None = None, *, packs: bool = False
) -> dict[str, Any]:
    """An example that follows from its number; without an id where rows are packed."""
    if length is None:
        length = number * 7 % 11
    other = length if packs else number * 5 % 8
    made = {
        "id": number,
        "tokens": (1000 * number + np.arange(length)).astype(np.int32),
        "points": (number + np.arange(3 * other)).astype(np.uint8).reshape(-1, 3),
    }
    if packs:
        del made["id"]
    return made


def longest(batches: list[dict[str, Any]], kwargs: dict[str, Any]) -> dict[str, int]:
    """Rows that the largest of these batches has, and a few more."""
    axis = 1 if kwargs.get("ragged") == "padded" else 0
    return {
        name: max(batch[name].shape[axis] for batch in batches) + 5
        for name in ("tokens", "points")
    }


def on_device(fields: list[Field], stream: Any) -> list[Any]:
    """Arrays in device memory, which stay where they are."""
    with echobuf.EchoBuffer(
        fields, batch_size=1, window=1, factor=1, device="cuda"
    ) as buffer:
        buffer.put([np.full(field.shape, 85, field.dtype) for field in fields])
        buffer.close()
        return [leaf[0] for leaf in buffer.next_batch(stream=stream)]


def memory(
    rows: dict[str, int] | None, kwargs: dict[str, Any], stream: Any
) -> dict[str, Any]:
    """Memory of a batch: `rows` in each ragged leaf, or packed rows."""
    size = kwargs["batch_size"]
    if rows is None:
        length = kwargs["pack_to"]
        ids = Field((size, length), np.int32)
        tokens, points, *rest = on_device(
            [
                Field((size, length), np.int32),
                Field((size, length, 3), np.uint8),
                ids,
                ids,
                Field((size,), np.int64),
            ],
            stream,
        )
        return {"tokens": Packed(tokens, *rest), "points": Packed(points, *rest)}
    padded = kwargs.get("ragged") == "padded"
    make: Any = Padded if padded else Ragged
    fields = [Field((size,), np.int64)]
    for name, length in rows.items():
        lead = (size, length) if padded else (length,)
        fields.append(Field((*lead, *SPEC[name].shape[1:]), SPEC[name].dtype))
        fields.append(Field((size + (not padded),), np.int64))
    arrays = iter(on_device(fields, stream))
    out = {"id": next(arrays)}
    for name in rows:
        out[name] = make(next(arrays), next(arrays))
    return out


def plain(
    batch: dict[str, Any], like: dict[str, Any] | None = None, *, cut: bool = False
) -> dict[str, np.ndarray]:
    """Copies of a batch's arrays, by name.

    Args:
        batch: as it was drawn.
        like: one whose values have as many rows; what this one has more is padding.
        cut: ragged leaves become the rows of their examples, without padding.
    """
    arrays = {}
    for name, leaf in batch.items():
        if not isinstance(leaf, Ragged | Padded | Packed):
            arrays[name] = np.array(leaf)
            continue
        if cut:
            arrays[name] = np.concatenate(
                [
                    leaf.values[:0].reshape(0, *SPEC[name].shape[1:]),
                    *map(np.array, leaf.to_list()),
                ]
            )
            continue
        values, *rest = map(np.array, leaf)
        if like is not None:
            axis = 1 if isinstance(leaf, Padded) else 0
            kept, more = np.split(values, [like[name].shape[axis]], axis=axis)
            pad = {"tokens": -7, "points": 9}[name] if more.any() else 0
            assert (more == pad).all(), "what is behind a batch is padding"
            values = kept
        arrays[name] = values
        for part, array in zip(leaf._fields[1:], rest, strict=True):
            arrays[f"{name}.{part}"] = array
    return arrays
