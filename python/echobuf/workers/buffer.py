"""A buffer whose ring is written by worker processes."""

from __future__ import annotations

from echobuf.buffer import EchoBuffer


class SharedBuffer(EchoBuffer):
    """Its slots, and nothing else of it, lie in memory that workers share."""

    _shared = True
