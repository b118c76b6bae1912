"""Batches of a finite stream, each example `factor` times, in either order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf import EchoLoader
from shuffles.conditions import Condition

__all__ = ["batches", "draws"]

Columns = tuple[NDArray[Any], ...]

_AT_A_TIME = 32  # draws; the order does not depend on it


def batches(
    columns: Columns, condition: Condition, batch_size: int, seed: int
) -> Iterator[Columns]:
    """Yield the batches of a stream of columns; the last one may be short."""
    if condition.kind == "passes":
        yield from EchoLoader(
            [columns],
            batched=True,
            batch_size=batch_size,
            window=condition.size,
            factor=condition.factor,
            seed=seed,
        )
    else:
        yield from _shuffled(columns, condition, batch_size, seed)


def _shuffled(
    columns: Columns, condition: Condition, batch_size: int, seed: int
) -> Iterator[Columns]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    dataset = tf.data.Dataset

    def repeat(*leaves: Any) -> Any:
        return dataset.from_tensors(leaves).repeat(condition.factor)

    source = dataset.from_tensor_slices(columns).flat_map(repeat)
    shuffled = source.shuffle(condition.size, seed=seed).batch(batch_size)
    yield from shuffled.as_numpy_iterator()


def draws(count: int, condition: Condition, seed: int) -> NDArray[np.int64]:
    """Yield `count` numbers of fresh examples, in the order of their use."""
    numbers = np.arange(count, dtype=np.int64)
    stream = batches((numbers,), condition, _AT_A_TIME, seed)
    return np.concatenate([batch for (batch,) in stream])
