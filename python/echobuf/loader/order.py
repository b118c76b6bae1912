"""Which examples of a map-style dataset an epoch has, and in what order."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from typing import Any

from echobuf.errors import OptionError, UpstreamError
from echobuf.loader.source import RayBatches, as_data_loader


class Order:
    """Indices for worker processes to make examples of: what a loader iterates.

    Args:
        dataset: has `__getitem__` and `__len__`.
        sampler: an iterable of indices, anew in each epoch; None for all in order.

    Raises:
        OptionError: they are no such things.
    """

    def __init__(self, dataset: Any, sampler: Any) -> None:
        if as_data_loader(dataset) is not None:
            raise OptionError(
                "`upstream` is a DataLoader, which has workers of its own; with "
                "`num_workers` pass its dataset, and its sampler as `sampler=`."
            )
        if isinstance(dataset, RayBatches):
            raise OptionError(
                "`upstream` is data of Ray, which has workers of its own and gives no "
                "examples by number: leave `num_workers` and `sampler` out."
            )
        if _is_iterable_dataset(dataset):
            raise OptionError(
                f"`upstream` is a {type(dataset).__name__}, an IterableDataset: it has "
                "no examples by number, for `num_workers` and `sampler`. Pass a "
                "DataLoader of it, with workers of its own."
            )
        if not hasattr(dataset, "__getitem__"):
            raise OptionError(
                f"`upstream` is a {type(dataset).__name__}; with `num_workers` or "
                "`sampler` it must be a map-style dataset, with `__getitem__` and "
                "`__len__`: workers are told which example to make."
            )
        if sampler is None and not hasattr(dataset, "__len__"):
            raise OptionError(
                f"`upstream` is a {type(dataset).__name__} without `__len__`; give "
                "`sampler=`, an iterable of the indices to read."
            )
        if sampler is not None and not hasattr(sampler, "__iter__"):
            raise OptionError(
                f"`sampler` is a {type(sampler).__name__}; it must be an iterable of "
                "indices."
            )
        self.dataset = dataset
        self.sampler = sampler

        self._used_up = False

    def __iter__(self) -> Iterator[int]:
        if self.sampler is None:
            return iter(range(len(self.dataset)))
        indices = iter(self.sampler)
        if indices is self.sampler:  # a generator, an iterator
            if self._used_up:
                raise UpstreamError(
                    f"`sampler` is a {type(indices).__name__}, which gives one epoch "
                    "only and has been used. For more epochs pass an object whose "
                    "`__iter__` begins anew, such as a list or a torch sampler."
                )
            self._used_up = True
        return map(_index, indices)

    def __len__(self) -> int:
        return len(self.dataset if self.sampler is None else self.sampler)


def _is_iterable_dataset(dataset: Any) -> bool:
    """Return True for torch's, without importing it: its `__getitem__` only raises."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(dataset, data.IterableDataset)


def is_map_style(upstream: Any) -> bool:
    """Return True for a dataset with a length that is read by index alone.

    Iterated, it would be read until it raises IndexError, which it need not.
    """
    return hasattr(upstream, "__len__") and not hasattr(upstream, "__iter__")


class Sampled:
    """The examples of an order, made on the thread that iterates."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def __iter__(self) -> Iterator[Any]:
        dataset = self.order.dataset
        return (dataset[index] for index in self.order)

    def __len__(self) -> int:
        return len(self.order)


def _index(value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        index = operator.index(value)
    except TypeError:
        raise OptionError(
            f"`sampler` yielded {value!r}; it must yield ints, the indices of examples."
        ) from None
    if not -(2**63) <= index < 2**63:
        raise OptionError(f"`sampler` yielded {index}, which is no 64-bit index.")
    return index
