"""`Adapter`: converts a framework's items and sets the form of its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from echobuf import nodes
from echobuf.buffer import EchoBuffer
from echobuf.loader import source


class Adapter:
    """NumPy's conversion of items and batches, and the base of other frameworks'."""

    takes_none = False  # as a part of items without leaves
    nested = False  # ragged leaves of batches are nested tensors

    def yields_batches(self, upstream: Iterable[Any]) -> bool:
        """Say if it is a DataLoader, or the like, that makes batches."""
        return source.yields_batches(upstream)

    def learn(self, item: Any) -> None:
        """Make nodes of the containers in an item."""
        nodes.learn(item)

    def read_first(self, item: Any) -> Any:
        """Return the first item, from which the spec is inferred."""
        self.learn(item)
        return item

    def reader(self) -> Callable[[Any], Any]:
        """Return a function that converts items into the form that the buffer takes."""
        return _as_it_is

    def carried(self) -> list[str | None]:
        """Return of each leaf of items torch's name of its dtype, if NumPy lacks it.

        After `read_first`; the list may be empty.
        """
        return []

    def in_worker(self) -> Adapter:
        """Return an adapter for a worker process, which is pickled."""
        return type(self)()

    def fit(self, buffer: EchoBuffer) -> None:
        """Make the buffer return batches of the framework's arrays.

        Raises:
            EchobufError: it has no arrays for them.
        """


def _as_it_is(item: Any) -> Any:
    return item
