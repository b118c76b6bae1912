"""`LocalitySampler`: each rank takes the items of a global batch that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf.arguments import check_bool, check_epoch, check_int
from echobuf.cache.distributed.dataset import PartitionedDataset
from echobuf.cache.distributed.membership import NO_RANK, Holders
from echobuf.errors import OptionError


class LocalitySampler:
    """A sampler of the indices of one rank: of each global batch, those that it holds.

    Locality-aware loading (Yang & Cong 2019, arXiv:1910.01196). All ranks share one
    sequence of indices, that of torch's `DistributedSampler` with the same `seed`,
    `shuffle`, `drop_last` and epoch. Batch number k of all ranks together is the same
    set of examples as with that sampler; only the assignment of its examples to ranks
    differs: a rank takes those that it holds, and surplus and deficit are balanced, so
    that each takes `batch_size` and as few as possible are sent.

    It is made with the same arguments on all ranks. The first `iter` of an epoch waits
    until all ranks call it: they exchange which items they hold.

    Args:
        cache: the `PartitionedDataset` to sample.
        batch_size: examples of a batch of one rank, as the loader makes them.
        seed: of the order.
        shuffle: False: the indices in order.
        drop_last: leave out the last examples that do not give each rank as many;
            False: as many of the first ones come again.

    Raises:
        OptionError: an argument is out of range.

    Examples:
        >>> import torch
        >>> from echobuf.cache.distributed import LocalitySampler, PartitionedDataset
        >>> torch.distributed.init_process_group(
        ...     "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
        ... )
        >>> cached = PartitionedDataset([np.zeros(8)] * 4, 10_000, host="127.0.0.1")
        >>> sampler = LocalitySampler(cached, batch_size=2, seed=0)
        >>> sampler.set_epoch(1)
        >>> list(sampler)
        [1, 3, 2, 0]
        >>> cached.close()
        >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        cache: PartitionedDataset,
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> None:
        if not isinstance(cache, PartitionedDataset):
            raise OptionError(
                f"`cache` is a {type(cache).__name__}; it must be a "
                "`PartitionedDataset`, whose ranks know what they hold."
            )
        self._cache = cache
        self._batch_size = check_int("batch_size", batch_size, 1, 2**31 - 1)
        self._seed = check_int("seed", seed, 0, 2**62)
        self._shuffle = check_bool("shuffle", shuffle)
        self._drop_last = check_bool("drop_last", drop_last)
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which chooses the order: before `iter`, the same on all ranks.

        Raises:
            OptionError: it is not an int >= 0.
        """
        self._epoch = check_epoch(epoch)

    def __len__(self) -> int:
        """Return the number of examples of this rank in an epoch, the same for all."""
        length, ranks = len(self._cache), self._cache.ranks
        return length // ranks if self._drop_last else -(-length // ranks)

    def __iter__(self) -> Iterator[int]:
        """Return an iterator over this rank's indices of the epoch.

        Raises:
            OptionError: ranks have other arguments, or are in another epoch.
            UpstreamError: a rank is gone that the agreement needs.
        """
        holders = self._cache.holders(
            {
                "batch_size": self._batch_size,
                "seed": self._seed,
                "shuffle": self._shuffle,
                "drop_last": self._drop_last,
                "epoch": self._epoch,
            }
        )
        return self._own_indices(self._sequence(), holders)

    def _sequence(self) -> NDArray[np.int64]:
        """Return all indices of the epoch, the repeated ones included."""
        order = np.arange(len(self._cache))
        if self._shuffle:
            order = _permutation(len(self._cache), self._seed + self._epoch)
        return np.resize(order, len(self) * self._cache.ranks)

    def _own_indices(
        self, sequence: NDArray[np.int64], holders: Holders
    ) -> Iterator[int]:
        ranks = self._cache.ranks
        global_size = self._batch_size * ranks
        for begin in range(0, len(sequence), global_size):
            batch = sequence[begin : begin + global_size]
            takers = assign(holders[batch], ranks)
            yield from batch[takers == self._cache.rank].tolist()


def _permutation(length: int, seed: int) -> NDArray[np.int64]:
    """Return the order of torch's `DistributedSampler`."""
    import torch

    generator = torch.Generator()
    generator.manual_seed(seed)
    order: Any = torch.randperm(length, generator=generator).numpy()
    return np.asarray(order, np.int64)


# ---- assignment of a global batch to ranks


def assign(holders: NDArray[np.integer], ranks: int) -> NDArray[np.int64]:
    """Return the rank that takes each example of a global batch; all take as many.

    A rank takes the examples that it holds, up to its part of the batch: the first of
    them, in the order of the batch. The rest, and examples without a holder, go to the
    ranks that lack some. So as few as possible are taken by another rank than their
    holder, and they move between at most `ranks - 1` pairs of ranks.

    Args:
        holders: the rank that holds each example, or `NO_RANK`.
        ranks: the number of ranks, whose parts are equal.
    """
    part = len(holders) // ranks
    # NumPy sorts 16 bits by radix. Examples without a holder come first.
    short = holders.astype(np.int16) if ranks <= 2**15 else holders
    order = np.argsort(short, kind="stable")
    held_by = holders[order]
    counts = count_held(holders, ranks)
    begins = len(holders) - counts[::-1].cumsum()[::-1]
    stays = held_by != NO_RANK
    stays[stays] = (np.arange(len(holders)) - begins[held_by])[stays] < part
    takers = held_by.astype(np.int64)
    lacking = part - np.minimum(counts, part)
    takers[~stays] = np.repeat(np.arange(ranks), lacking)
    assigned = np.empty(len(holders), np.int64)
    assigned[order] = takers
    return assigned


def count_held(holders: NDArray[np.integer], ranks: int) -> NDArray[np.int64]:
    """Return how many examples of a global batch each rank holds."""
    return np.bincount(holders[holders != NO_RANK], minlength=ranks)


def imbalance(counts: NDArray[np.integer]) -> float:
    """Return the share of a global batch that must move before all ranks have as many.

    It is the sum of the examples that ranks lack, over the size of the batch.

    Args:
        counts: of the examples that each rank holds.
    """
    part = counts.sum() / len(counts)
    return float(np.maximum(part - counts, 0).sum() / counts.sum())
