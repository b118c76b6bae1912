"""Renewal: the generation of an item that an epoch serves, and its seed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf.arguments import check_int
from echobuf.cache.memory import SharedMemory

_NUMBER_BITS = 36  # of a key; above them is the generation
_MAX_EPOCH = 2**28 - 1
_MAX_SEED = 2**63 - 1


@dataclass(frozen=True)
class Renewal:
    """The item that is being made, as its dataset and `prepare` may see it.

    Attributes:
        index: the index of the item.
        generation: 0 for the first item of this index, then 1, ...
        seed: 63 bits that follow from the cache's `seed`, `index` and `generation`.

    Examples:
        >>> from echobuf.cache import CachedDataset, get_renewal
        >>> def crop(image):
        ...     chance = np.random.default_rng(get_renewal().seed)
        ...     begin = chance.integers(20)
        ...     return image[begin : begin + 80]
        >>> cached = CachedDataset([np.zeros(100)] * 9, 10_000, prepare=crop, renew=3)
        >>> cached[0].shape
        (80,)
    """

    index: int
    generation: int
    seed: int


_current: ContextVar[Renewal | None] = ContextVar("renewal", default=None)


def get_renewal() -> Renewal | None:
    """Return the item that is being made for a cache with `renew`; None elsewhere.

    For `__getitem__` of the dataset and for `prepare`, in any process, as
    `torch.utils.data.get_worker_info` is. An item whose randomness comes from its
    `seed` is the same in whichever process and whenever it is made.

    Examples:
        >>> from echobuf.cache import get_renewal
        >>> class Noise:
        ...     def __len__(self):
        ...         return 100
        ...     def __getitem__(self, index):
        ...         return np.random.default_rng(get_renewal().seed).random(4)
        >>> get_renewal() is None
        True
    """
    return _current.get()


class Schedule:
    """The generations of a cache's items, by index and epoch.

    Stores know an item by its key, in which the generation stands above the index.
    """

    def __init__(self, renew: Any, seed: int) -> None:
        self._renew = check_int("renew", renew, 1, _MAX_EPOCH)
        self._seed = seed
        self._epoch = SharedEpoch()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, in this process and in its workers."""
        self._epoch.set(epoch)

    def keys(self, numbers: Sequence[int]) -> list[int]:
        """Return the keys of items in the current epoch."""
        epoch = self._epoch.get()
        return [self._key(number, epoch) for number in numbers]

    def _key(self, number: int, epoch: int) -> int:
        generation = (epoch + number % self._renew) // self._renew
        return generation << _NUMBER_BITS | number

    def serves_again(self, key: int) -> bool:
        """Return True if the next epoch serves this item, too."""
        number, _ = split_key(key)
        return self._key(number, self._epoch.get() + 1) == key

    def make(self, key: int, read: Callable[[int], Any]) -> Any:
        """Return `read` of an item's index, called with the item's seed."""
        number, generation = split_key(key)
        renewal = Renewal(number, generation, self._mix(number, generation))
        token = _current.set(renewal)
        try:
            with _seeded(renewal.seed):
                return read(number)
        finally:
            _current.reset(token)

    def _mix(self, number: int, generation: int) -> int:
        words = struct.pack("<QQQ", self._seed, number, generation)
        digest = hashlib.blake2b(words, digest_size=8).digest()
        return int.from_bytes(digest, "little") >> 1


def check_epoch(epoch: Any) -> int:
    """Return `epoch` as an int; raise `OptionError` otherwise."""
    return check_int("epoch", epoch, 0, _MAX_EPOCH)


def check_seed(seed: Any) -> int:
    """Return `seed` as an int; raise `OptionError` otherwise."""
    return check_int("seed", seed, 0, _MAX_SEED)


def split_key(key: int) -> tuple[int, int]:
    """Return the index and the generation of a key."""
    return key & (1 << _NUMBER_BITS) - 1, key >> _NUMBER_BITS


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch; put them back after it.

    Only in a process's main thread, as in workers: the training loop draws from the
    same generators, and would draw its numbers twice if another thread put them back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    torch = getattr(sys.modules.get("torch"), "default_generator", None)
    python_state, numpy_state = random.getstate(), np.random.get_state()
    torch_state = None if torch is None else torch.get_state()
    try:
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)
        if torch is not None:
            torch.manual_seed(seed)
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        if torch is not None:
            torch.set_state(torch_state)


class SharedEpoch:
    """The number of an epoch, in memory that a process shares with its workers.

    A process that sets it reads what it has set: workers of one pool may be in
    different epochs.
    """

    def __init__(self) -> None:
        self._attach(SharedMemory(8), 0)

    def _attach(self, memory: SharedMemory, epoch: int) -> None:
        self._memory = memory
        self._words = memory.view.cast("Q")  # of which the first is the epoch + 1
        self._own = (0, 0)  # the process that has set it, and the epoch
        if not self._words[0]:
            self._words[0] = epoch + 1

    def set(self, epoch: int) -> None:
        """Set the epoch."""
        self._words[0] = epoch + 1
        self._own = os.getpid(), epoch

    def get(self) -> int:
        """Return the epoch."""
        process, epoch = self._own
        return epoch if process == os.getpid() else self._words[0] - 1

    def __getstate__(self) -> tuple[SharedMemory, int]:
        return self._memory, self.get()

    def __setstate__(self, state: tuple[SharedMemory, int]) -> None:
        # The memory of a copy that is no worker's is new: it has no epoch yet.
        self._attach(*state)
