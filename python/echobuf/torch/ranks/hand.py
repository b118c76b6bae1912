"""Batches that were drawn and not handed out yet."""

from __future__ import annotations

from collections import deque
from typing import Any

import optree
import torch

from echobuf.torch.ranks.place import State
from echobuf.tree import NAMESPACE


class Hand:
    """Batches in the order in which they were drawn, and where each leaves the buffer.

    On a CUDA device a batch is valid in the order of the stream that it was drawn on;
    who takes it may be on another.
    """

    def __init__(self) -> None:
        self._held: deque[tuple[Any, State, Any]] = deque()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, batch: Any, position: State) -> None:
        """Keeps a batch that was drawn just now."""
        self._held.append((batch, position, _drawn_at(batch)))

    def first(self) -> tuple[Any, State]:
        """The next one to hand out, valid on the current stream."""
        batch, position, drawn = self._held[0]
        if drawn is not None:
            _make_valid(batch, *drawn)
        return batch, position

    def drop_first(self) -> None:
        """It is handed out."""
        self._held.popleft()

    def clear(self) -> None:
        """Gives all of them up."""
        self._held.clear()


def copy_of(batch: Any) -> Any:
    """The same tensors in memory of their own."""
    return optree.tree_map(torch.clone, batch, namespace=NAMESPACE)


def _drawn_at(batch: Any) -> tuple[Any, Any] | None:
    """The current stream and a mark on it, if the batch is on a CUDA device."""
    leaf = next(iter(optree.tree_iter(batch, namespace=NAMESPACE)), None)
    if leaf is None or not leaf.is_cuda:
        return None
    stream = torch.cuda.current_stream(leaf.device)
    return stream, stream.record_event()


def _make_valid(batch: Any, drawn_on: Any, mark: Any) -> None:
    leaves = optree.tree_leaves(batch, namespace=NAMESPACE)
    current = torch.cuda.current_stream(leaves[0].device)
    if current == drawn_on:
        return
    current.wait_event(mark)
    for leaf in leaves:
        leaf.record_stream(current)
