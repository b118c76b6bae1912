"""A torch DataLoader's examples, put one by one in place of batches that it stacks.

Its `default_collate` copies each example into a batch, and a put copies that into the
window. Without the first copy an image of 48 KB takes a fifth less time.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from echobuf.device_arrays import is_on_device
from echobuf.trees import flatten

# Bytes of examples that are made before they are put: a part of a second-level cache.
_TOGETHER = 256 << 10


class Unstacked:
    """The examples of a DataLoader's batches; iterated once.

    Args:
        batches: its iterator, which runs in this process.
        fetcher: of that, which stacks examples.
        some: how many examples to make at a time.

    Attributes:
        count: batches that were taken.
    """

    def __init__(
        self, batches: Iterator[Iterator[Any]], fetcher: Any, some: int
    ) -> None:
        self.count = 0
        self._batches = batches
        self._fetcher = fetcher
        self._made_by = fetcher.dataset, fetcher.collate_fn
        self._batch = batch = _Batch(fetcher.dataset, some)
        makes_whole = getattr(fetcher.dataset, "__getitems__", None)
        if makes_whole or _name_of_type(fetcher) != _MAP:
            fetcher.collate_fn = batch.take_made
        else:
            fetcher.dataset, fetcher.collate_fn = batch, _unchanged
        self._first: Any = None  # of the last batch
        self._left: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._examples())

    def _examples(self) -> Iterator[Iterator[Any]]:
        for left in self._batches:
            self._left = left
            self.count += 1
            if self._batch.size == 0:
                self._made_by[1]([])  # raises
            for first in itertools.islice(left, 1):
                self._first = first
                yield iter((_as_stacked(first),))
            yield map(_as_stacked, left)
            if self._batch.count_taken() < self._batch.size:
                break  # a StopIteration of the dataset's own

    def restore(self) -> None:
        """Let the DataLoader stack its batches again."""
        self._fetcher.dataset, self._fetcher.collate_fn = self._made_by

    def stack(self) -> Any:
        """Return the last batch, stacked, from the example on that was taken last.

        None where the dataset ends the epoch in the middle of it.
        """
        before = self._batch.count_taken() - 1
        # Those before it are as the first, or they were not put.
        batch = [*[self._first] * before, self._batch.last(), *self._left]
        if len(batch) < self._batch.size:
            return None
        stacked = self._made_by[1](batch)
        if before == 0:
            return stacked
        leaves, treespec = flatten(stacked)
        return treespec.unflatten(leaf[before:] for leaf in leaves)


class _Batch:
    """A DataLoader's batch, of which a few examples are made at a time.

    So their memory is in the caches still when they are put, and is used again for the
    next ones: images of 48 KB take a tenth less time. One at a time, small examples
    would take more: the code that makes them and that puts them share a cache, too.

    Args:
        dataset: of the DataLoader.
        some: how many examples.
    """

    def __init__(self, dataset: Any, some: int) -> None:
        self.size = 0
        self._dataset = dataset
        self._some = some
        self._count = 0  # examples that have been made
        self._made: list[Any] = []  # the last of those
        self._left: Iterator[Any] = iter(self._made)

    def __getitems__(self, indices: Iterable[Any]) -> Iterator[Any]:
        if not isinstance(indices, (list, tuple, range)):
            # An index may depend on what the dataset does for the one before it.
            return self.take_made([self._dataset[index] for index in indices])
        self.size, self._count = len(indices), 0
        starts = range(0, self.size, self._some)
        parts = (indices[start : start + self._some] for start in starts)
        return itertools.chain.from_iterable(map(self._make, parts))

    def _make(self, indices: Sequence[Any]) -> Iterator[Any]:
        self._made = []  # the memory of those before is free
        self._made = [self._dataset[index] for index in indices]
        self._count += len(self._made)
        self._left = iter(self._made)
        return self._left

    def take_made(self, examples: Iterable[Any]) -> Iterator[Any]:
        """Take a batch of which all examples have been made."""
        self._made = [*examples]
        self.size = self._count = len(self._made)
        self._left = iter(self._made)
        return self._left

    def count_taken(self) -> int:
        """Return how many examples were taken."""
        return self._count - operator.length_hint(self._left)

    def last(self) -> Any:
        """Return the example that was taken last."""
        return self._made[-1 - operator.length_hint(self._left)]


def unstack(items: Iterator[Any], first: Any) -> Unstacked | None:
    """Return the examples of what a DataLoader yields next; None if it must stack them.

    They are the same as in its batches where torch's own code makes these, in this
    process, of examples that lie on the host.

    Args:
        items: an iterator of upstream.
        first: the batch that it has yielded.
    """
    fetcher = _fetcher_of(items)
    if fetcher is None:
        return None
    leaves, _ = flatten(first)
    if not all(map(_is_exact, leaves)):
        return None
    bytes_of_one = sum(leaf.nbytes // max(1, len(leaf)) for leaf in leaves)
    return Unstacked(items, fetcher, max(1, _TOGETHER // max(1, bytes_of_one)))


def _is_exact(leaf: Any) -> bool:
    """Return True for a leaf into which a put takes no more than a batch of it has.

    A leaf of other numbers would take Python's, too, which torch makes 64 bits wide.
    """
    import torch

    if not isinstance(leaf, torch.Tensor) or is_on_device(leaf):
        return False
    return leaf.ndim > 1 or leaf.dtype in (torch.int64, torch.float64, torch.bool)


_ITERATOR = ("torch.utils.data.dataloader", "_SingleProcessDataLoaderIter")
_MAP = ("torch.utils.data._utils.fetch", "_MapDatasetFetcher")
_FETCHERS = {_MAP, ("torch.utils.data._utils.fetch", "_IterableDatasetFetcher")}
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
        and of_fetcher.get("auto_collation") is True
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


def _unchanged(batch: Any) -> Any:
    return batch


def _as_stacked(example: Any) -> Any:
    """Return an example in the structure that its batch has: `default_collate`'s."""
    return list(example) if type(example) is tuple else example
