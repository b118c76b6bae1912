"""What ranks say, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from echobuf.describe_error import message


def in_words(error: BaseException, most: int = 500) -> str:
    """An error as the other ranks get it."""
    text = message(error)
    return text if len(text) <= most else text[:most] + "..."


def per_rank(values: Sequence[tuple[int, Any]]) -> str:
    """The value of each rank, as an error lists them."""
    return ", ".join(f"rank {rank}: {value!r}" for rank, value in values)
