"""`LocalitySampler`: each rank takes of every global batch what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf.cache.distributed.dataset import PartitionedDataset
from echobuf.cache.distributed.dealing import deal
from echobuf.cache.distributed.holdings import Holders
from echobuf.errors import OptionError
from echobuf.options import check_bool, check_epoch, check_int


class LocalitySampler:
    """Indices for this rank: of each global batch, those that it holds.

    Locality-aware loading (Yang & Cong 2019, arXiv:1910.01196). There is one sequence
    of all indices for all ranks, that of torch's `DistributedSampler` with the same
    `seed`, `shuffle`, `drop_last` and epoch. Batch number k of all ranks together is
    the same set of examples as with that sampler; only who takes which differs: a rank
    takes those that it holds, and surplus and deficit are balanced, so that all take
    `batch_size` and as few as possible are sent.

    Made with the same arguments on all ranks. The first `iter` of an epoch waits until
    all ranks come to it: they tell each other what they hold.

    Args:
        cache: whose ranks and items these are.
        batch_size: examples of a batch of one rank, as the loader makes them.
        seed: of the order.
        shuffle: False: in order.
        drop_last: leave out the last examples that do not give each rank as many;
            False: as many of the first ones come again.

    Raises:
        OptionError: an argument is out of range.
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
        """Another epoch is another order; the same on all ranks, before `iter`."""
        self._epoch = check_epoch(epoch)

    def __len__(self) -> int:
        """Examples of this rank in an epoch, the same for all."""
        length, ranks = len(self._cache), self._cache.ranks
        return length // ranks if self._drop_last else -(-length // ranks)

    def __iter__(self) -> Iterator[int]:
        """The indices of the epoch.

        Raises:
            OptionError: ranks have other arguments, or are in another epoch.
            UpstreamError: a rank is gone without which they cannot agree.
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
        return self._own(self._sequence(), holders)

    def _sequence(self) -> NDArray[np.int64]:
        """All indices of the epoch, those that come again included."""
        order = np.arange(len(self._cache))
        if self._shuffle:
            order = _permutation(len(self._cache), self._seed + self._epoch)
        return np.resize(order, len(self) * self._cache.ranks)

    def _own(self, sequence: NDArray[np.int64], holders: Holders) -> Iterator[int]:
        ranks = self._cache.ranks
        whole = self._batch_size * ranks
        for begin in range(0, len(sequence), whole):
            batch = sequence[begin : begin + whole]
            takers = deal(holders[batch], ranks)
            yield from batch[takers == self._cache.rank].tolist()


def _permutation(length: int, seed: int) -> NDArray[np.int64]:
    """That of torch's `DistributedSampler`."""
    import torch

    generator = torch.Generator()
    generator.manual_seed(seed)
    order: Any = torch.randperm(length, generator=generator).numpy()
    return np.asarray(order, np.int64)
