"""The parts of a state that say what passes leave out: arrays as text."""

from __future__ import annotations

import base64
import zlib
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from echobuf.errors import StateError

Pending: TypeAlias = tuple[int, npt.NDArray[np.int64], npt.NDArray[np.float32]]
"""Losses that count after so many batches: the numbers of examples, and theirs."""


def written(selection: dict[str, Any]) -> dict[str, Any]:
    """Return what passes leave out, with text for its arrays."""
    return {
        key: _text(value) if isinstance(value, bytes) else value
        for key, value in selection.items()
    }


def read(selection: dict[str, Any]) -> dict[str, Any]:
    """Return the reverse of `written`.

    Raises:
        StateError: it is damaged.
    """
    try:
        return {
            key: _bytes(value) if isinstance(value, str) else value
            for key, value in selection.items()
        }
    except (zlib.error, ValueError, AttributeError) as error:
        raise _damaged(error) from None


def written_losses(late: list[Pending]) -> list[Any]:
    """Return losses that do not count yet, as lists and text."""
    return [
        [batches, _text(index.tobytes()), _text(loss.tobytes())]
        for batches, index, loss in late
    ]


def read_losses(late: Any) -> list[Pending]:
    """Return the reverse of `written_losses`.

    Raises:
        StateError: it is damaged.
    """
    losses: list[Pending] = []
    try:
        for batches, index, loss in late:
            numbers = np.frombuffer(_bytes(index), np.int64)
            values = np.frombuffer(_bytes(loss), np.float32)
            if batches < 1 or len(numbers) != len(values):
                raise ValueError("losses of other examples")
            losses.append((int(batches), numbers, values))
    except (zlib.error, ValueError, AttributeError, TypeError) as error:
        raise _damaged(error) from None
    return losses


def _text(values: bytes) -> str:
    return base64.b85encode(zlib.compress(values)).decode()


def _bytes(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def _damaged(error: Exception) -> StateError:
    return StateError(f"`state` is damaged: {error}.")
