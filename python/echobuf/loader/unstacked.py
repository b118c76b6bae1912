"""A torch DataLoader's examples, put one by one in place of batches that it stacks.

Its `default_collate` copies each example into a batch, and a put copies that into the
window. Without the first copy an image of 48 KB takes a fifth less time.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from typing import Any

from echobuf.device_arrays import is_on_device
from echobuf.trees import flatten


class Unstacked:
    """The examples of a DataLoader's batches; iterated once.

    Args:
        batches: its iterator, which runs in this process.
        fetcher: of that, which stacks examples.

    Attributes:
        count: batches that were taken.
    """

    def __init__(self, batches: Iterator[list[Any]], fetcher: Any) -> None:
        self.count = 0
        self._batches = batches
        self._fetcher = fetcher
        self._stack, fetcher.collate_fn = fetcher.collate_fn, list
        self._batch: list[Any] = []
        self._left: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            self.count += 1
            self._batch, self._left = batch, iter(batch)
            yield from map(_as_stacked, self._left)

    def stack(self) -> Any:
        """Return the last batch, stacked, from the example on that was taken last.

        The DataLoader stacks its batches again.
        """
        self._fetcher.collate_fn = self._stack
        taken = len(self._batch) - operator.length_hint(self._left)
        leaves, treespec = flatten(self._stack(self._batch))
        return treespec.unflatten(leaf[taken - 1 :] for leaf in leaves)


def unstack(items: Iterator[Any], first: Any) -> Unstacked | None:
    """Return the examples of what a DataLoader yields next; None if it must stack them.

    They are the same as in its batches where `default_collate` makes these, in this
    process, of examples that lie on the host.

    Args:
        items: an iterator of upstream.
        first: the batch that it has yielded.
    """
    data = sys.modules.get("torch.utils.data")
    fetcher = getattr(items, "_dataset_fetcher", None)  # not with workers
    if (
        data is None
        or getattr(fetcher, "collate_fn", None) is not data.default_collate
        or getattr(items, "_pin_memory", True)
        or any(is_on_device(leaf) for leaf in flatten(first)[0])
    ):
        return None
    return Unstacked(items, fetcher)


def _as_stacked(example: Any) -> Any:
    """Return an example in the structure that its batch has: `default_collate`'s."""
    return list(example) if type(example) is tuple else example
