"""A torch DataLoader's examples, put one by one in place of batches that it stacks.

Its `default_collate` copies each example into a batch, and a put copies that into the
window. Without the first copy an image of 48 KB takes a fifth less time.
"""

from __future__ import annotations

import operator
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
            if not batch:
                self._stack(batch)  # raises
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

    They are the same as in its batches where torch's own code makes these, in this
    process, of examples that lie on the host.

    Args:
        items: an iterator of upstream.
        first: the batch that it has yielded.
    """
    fetcher = _fetcher_of(items)
    are_all = fetcher is not None and all(map(_is_exact, flatten(first)[0]))
    return Unstacked(items, fetcher) if are_all else None


def _is_exact(leaf: Any) -> bool:
    """Return True for a leaf into which a put takes no more than a batch of it has.

    A leaf of other numbers would take Python's, too, which torch makes 64 bits wide.
    """
    import torch

    if not isinstance(leaf, torch.Tensor) or is_on_device(leaf):
        return False
    return leaf.ndim > 1 or leaf.dtype in (torch.int64, torch.float64, torch.bool)


_ITERATOR = ("torch.utils.data.dataloader", "_SingleProcessDataLoaderIter")
_FETCHERS = {
    ("torch.utils.data._utils.fetch", "_MapDatasetFetcher"),
    ("torch.utils.data._utils.fetch", "_IterableDatasetFetcher"),
}
# Those that somebody may have set on an object itself.
_METHODS = {"_next_data", "_next_index", "fetch"}


def _fetcher_of(items: Iterator[Any]) -> Any:
    """Return what makes the batches of an iterator, if nobody has changed how.

    None with workers, and for what another version of torch may have in its place.
    """
    if _name_of_type(items) != _ITERATOR:
        return None
    from torch.utils.data import default_collate
    from torch.utils.data._utils import collate

    own = vars(items)
    fetcher = own.get("_dataset_fetcher")
    of_fetcher = getattr(fetcher, "__dict__", {})
    is_torch_s = (
        _name_of_type(fetcher) in _FETCHERS
        and of_fetcher.get("collate_fn") is default_collate
        and own.get("_pin_memory") is False
        and _METHODS.isdisjoint([*own, *of_fetcher])
        and all(
            makes.__module__ == collate.__name__
            for makes in collate.default_collate_fn_map.values()
        )
    )
    return fetcher if is_torch_s else None


def _name_of_type(found: Any) -> tuple[str, str]:
    return type(found).__module__, type(found).__qualname__


def _as_stacked(example: Any) -> Any:
    """Return an example in the structure that its batch has: `default_collate`'s."""
    return list(example) if type(example) is tuple else example
