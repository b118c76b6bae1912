"""Examples through a buffer with `transform`, and what the reference makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field, transforms
from helpers import WAIT_S, Worker
from transform_reference import Draw, transform

Step = tuple[str, dict[str, Any]]
"""The name of an operation and its options."""


def chain(steps: Sequence[Step]) -> list[transforms.Operation]:
    """The operations."""
    return [getattr(transforms, name)(**options) for name, options in steps]


def field(array: np.ndarray) -> Field:
    """Return the field of an array."""
    return Field(array.shape, array.dtype)


def drawn(
    examples: Sequence[dict[str, np.ndarray]], transform: Any, **options: Any
) -> list[dict[str, np.ndarray]]:
    """All batches of examples that are put one by one."""
    options = {"batch_size": 2, "window": len(examples), "factor": 1} | options
    spec = {name: field(np.asarray(leaf)) for name, leaf in examples[0].items()}
    with EchoBuffer(spec, transform=transform, **options) as buffer:
        worker = Worker(_feed, buffer, examples)
        batches = list(buffer)
        worker.result()
        return batches


def _feed(buffer: EchoBuffer, examples: Sequence[dict[str, np.ndarray]]) -> None:
    for example in examples:
        buffer.put(example, timeout=WAIT_S)
    buffer.close()


def rows(
    examples: Sequence[np.ndarray], steps: Sequence[Step] | list[Any], **options: Any
) -> list[tuple[int, np.ndarray]]:
    """Each draw in order: the number of the example, and what was made of it."""
    trees = [{"id": np.int64(i), "x": x} for i, x in enumerate(examples)]
    ops = chain(steps) if steps and isinstance(steps[0], tuple) else steps
    batches = drawn(trees, {"x": ops}, **options)
    return [
        (int(number), row)
        for batch in batches
        for number, row in zip(batch["id"], batch["x"], strict=True)
    ]


def one(example: np.ndarray, steps: Any, **options: Any) -> np.ndarray:
    """Return the result of a single example."""
    ops = chain(steps) if steps and isinstance(steps[0], tuple) else steps
    [batch] = drawn([{"x": example}], {"x": ops}, batch_size=1, **options)
    return batch["x"][0]


def expected(
    example: np.ndarray,
    steps: Sequence[Step],
    draw: int,
    *,
    seed: int,
    epoch: int = 0,
    record: int = 0,
    echo: int = 0,
) -> np.ndarray:
    """Return the reference's result for an image [height, width, channels]."""
    use = {"record": record, "echo": echo}
    for op, (name, options) in enumerate(steps):
        if name not in ("Layout", "ToChannelFirst"):
            words = Draw(seed=seed, epoch=epoch, draw=draw, op=op, **use)
            with np.errstate(divide="ignore", invalid="ignore"):
                example = transform(name, options, words, example)
    return example
