"""`CachedDataset`: a dataset whose items are kept once they have been read."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from echobuf.arguments import check_int
from echobuf.cache import directory as directories
from echobuf.cache.items import HEADER_BYTES, DamagedError, ItemEncoder, decode_item
from echobuf.cache.memory import MemoryStore, SharedCounters
from echobuf.cache.renewal import Schedule, check_epoch, check_seed
from echobuf.cache.renewed_memory import RenewedMemory
from echobuf.errors import OptionError, SpecError

if TYPE_CHECKING:
    from echobuf.cache.disk import DiskStore
    from echobuf.cache.files import FileStore

COUNTED = ("hits", "misses", "damaged")
"""The counts that the processes of a cache share."""
_ABSENT = object()
_DAMAGED = object()


@dataclass(frozen=True)
class CacheStats:
    """Contents of a cache, and the requests of all processes that share it.

    Attributes:
        hits: items served from the cache.
        misses: items read from the source.
        damaged: misses whose stored item was damaged.
        items: items stored; those of other processes count once they are written.
        bytes: bytes of the stored items, encoded.
        max_bytes: the limit on these bytes.
        read_only: True where nothing is added, since the directory is not writable.

    Examples:
        >>> from echobuf.cache import CachedDataset
        >>> cached = CachedDataset([np.zeros(8)] * 4, max_bytes=10_000)
        >>> item, again = cached[0], cached[0]
        >>> stats = cached.stats()
        >>> stats.hits, stats.misses, stats.items, stats.hit_rate
        (1, 1, 1, 0.5)
    """

    hits: int
    misses: int
    damaged: int
    items: int
    bytes: int
    max_bytes: int
    read_only: bool

    @property
    def hit_rate(self) -> float:
        """Hits / (hits + misses); 0.0 before the first item."""
        return self.hits / max(1, self.hits + self.misses)


class CachedDataset:
    """Items of a map-style dataset, of which as many are kept as fit.

    Nothing is evicted (MinIO of CoorDL, Mohan et al. 2020, arXiv:2007.06775). Training
    reads each item once an epoch, in a new order: the hit rate is then the share of the
    items that fits, whereas an LRU cache of the same size evicts many items just before
    they are read.

    The cache is a map-style dataset, too: for `torch.utils.data.DataLoader`, whose
    workers share it, forked or spawned, and for the loaders of echobuf.

    Items are arrays, CPU tensors, numbers, strings, bytes and None, in lists, tuples
    and dicts; nothing is pickled. Each is checked whenever it is served, and belongs to
    the caller, who may change it. A damaged item is read again from the source.

    Args:
        dataset: has `__getitem__` for 0 to n - 1, and `__len__`, which is n. With
            `__getitems__`, missing items are read together.
        max_bytes: of all items kept; each takes some 100 bytes beside its arrays.
        directory: where to keep them, on a local disk; several processes may use one,
            at once and one after the other. None: in memory.
        identity: a string for these data and their preparation; a directory with
            another one is refused. None: it is made from three items, which are read
            for it.
        prepare: a function of an item of the dataset that returns the item to keep:
            decoded, resized. Called once for each item that fits.
        transform: a function of a kept item that returns the item to serve, called at
            each access: random augmentation belongs here.
        renew: epochs for which an item is served; then it is made anew, and replaces
            the last one. Needs `set_epoch` before each epoch. In epoch e the item of
            index i is of generation (e + i % renew) // renew: an epoch makes 1 / renew
            of the items, and the number of an epoch is all that a resumed run needs.
            None: items are made once.
        seed: of renewed items. `dataset` and `prepare`, where the random augmentation
            is then, find the item's index, generation and seed in `get_renewal()`. In
            the main thread of a process, such as a DataLoader's worker, the global
            generators of Python, NumPy and torch have this seed meanwhile. Items are
            read one by one.

    Raises:
        OptionError: an argument is out of range, or the directory is not this cache's.
            With `renew` and no `identity`: an item made twice with one seed differs.
        CapacityError: `max_bytes` is more than the available memory.

    Examples:
        >>> from echobuf.cache import CachedDataset
        >>> cached = CachedDataset([np.zeros(100)] * 10, max_bytes=10_000)
        >>> for epoch in range(2):
        ...     for i in range(10):
        ...         item = cached[i]
        >>> cached.stats().hit_rate
        0.5
        >>> loader = EchoLoader(cached, batch_size=5, factor=2)
    """

    _COUNTED: tuple[str, ...] = COUNTED

    def __init__(
        self,
        dataset: Any,
        max_bytes: int,
        *,
        directory: Any = None,
        identity: str | None = None,
        prepare: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        renew: int | None = None,
        seed: int = 0,
    ) -> None:
        self._length = _check_dataset(dataset)
        self._max_bytes = check_int("max_bytes", max_bytes, 1, 2**60)
        self._dataset = dataset
        self._prepare = _check_callable("prepare", prepare)
        self._transform = _check_callable("transform", transform)
        self._counters = SharedCounters(self._COUNTED)
        self._identity = directories.check_identity(identity)
        self._seed = check_seed(seed)
        self._schedule = _check_renewal(renew, self._seed)
        self._renewed: FileStore | RenewedMemory | None = None
        self._store: MemoryStore | DiskStore | FileStore
        if directory is not None:
            self._store = self._open(directory)
        elif self._schedule is None:
            self._store = MemoryStore(self._length, self._max_bytes)
        else:
            self._store = self._renewed = RenewedMemory(self._length, self._max_bytes)

    def _open(self, directory: Any) -> DiskStore | FileStore:
        """Return the store in a directory, which is claimed for these data."""
        is_renewed = self._schedule is not None
        if self._identity is None:
            self._identity = directories.derive_identity(
                self._dataset, self._length, self._read_one, repeats=1 + is_renewed
            )
        claim = functools.partial(
            directories.claim, directory, self._identity, self._length
        )
        if is_renewed:
            from echobuf.cache.files import FileStore

            self._renewed = FileStore(claim(self._seed), self._length, self._max_bytes)
            return self._renewed
        from echobuf.cache.disk import DiskStore

        return DiskStore(claim(), self._max_bytes)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which says which items are renewed: before `iter`.

        A DataLoader's workers see it, persistent ones too. Loaders of echobuf call it
        once `set_epoch` of the loader was called. Without `renew` it does nothing.

        Raises:
            OptionError: it is no int from 0 to 2**28 - 1.

        Examples:
            >>> from echobuf.cache import CachedDataset
            >>> cached = CachedDataset([np.zeros(8)] * 9, 10_000, renew=3)
            >>> for epoch in range(4):
            ...     cached.set_epoch(epoch)
            ...     items = [cached[i] for i in range(9)]
            >>> cached.stats().misses  # 9 in the first epoch, 3 in each of the others
            18
        """
        number = check_epoch(epoch)
        if self._schedule is not None:
            self._schedule.set_epoch(number)

    def __len__(self) -> int:
        """Return the number of items of the dataset, cached or not."""
        return self._length

    def __getitem__(self, index: Any) -> Any:
        """Return one item.

        Raises:
            IndexError: there is no such item.
            SpecError: it cannot be kept: for its type, or since it contains itself.
        """
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """Return several items; torch's DataLoader calls it with those of a batch.

        Raises:
            IndexError: there is no such item.
            SpecError: one cannot be kept; or `__getitems__` of the dataset did not
                return one item for each index.
        """
        numbers = [self._number(index) for index in indices]
        if self._schedule is not None:
            numbers = self._schedule.keys(numbers)
        kept = zip(numbers, self._store.get_all(numbers), strict=True)
        items = [self._load(number, stored) for number, stored in kept]
        missed = [i for i, item in enumerate(items) if _is_miss(item)]
        if missed:
            read = self._fetch([numbers[i] for i in missed])
            for i, item in zip(missed, read, strict=True):
                self._keep(numbers[i], item, damaged=items[i] is _DAMAGED)
                items[i] = item
        self._counters.add(hits=len(items) - len(missed), misses=len(missed))
        return items if self._transform is None else list(map(self._transform, items))

    def _load(self, number: int, stored: bytearray | None) -> Any:
        """Return a kept item; `_ABSENT` or `_DAMAGED` if it has to be read."""
        if stored is None:
            return _ABSENT
        try:
            return decode_item(stored, number)
        except DamagedError:
            if self._renewed is not None and not self._renewed.is_damaged(number):
                return _ABSENT
            self._counters.add(damaged=1)
            return _DAMAGED

    def _fetch(self, numbers: list[int]) -> list[Any]:
        """Return items that are not kept here."""
        return self._read(numbers)

    def _read(self, numbers: list[int]) -> list[Any]:
        """Return items from the source, prepared."""
        if self._schedule is not None:
            return [self._schedule.make(key, self._make) for key in numbers]
        if len(numbers) > 1 and callable(getattr(self._dataset, "__getitems__", None)):
            items = _check_items(self._dataset.__getitems__(numbers), len(numbers))
        else:
            items = [self._dataset[number] for number in numbers]
        return items if self._prepare is None else list(map(self._prepare, items))

    def _make(self, number: int) -> Any:
        item = self._dataset[number]
        return item if self._prepare is None else self._prepare(item)

    def _keep(self, number: int, item: Any, *, damaged: bool) -> None:
        free = self._store.free_bytes()
        if not damaged and free < HEADER_BYTES:
            return
        if self._schedule is not None and not self._schedule.serves_again(number):
            return
        encoder = ItemEncoder(item)
        if damaged or encoder.size <= free:
            self._store.put(number, encoder)

    def _number(self, index: Any) -> int:
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(
                f"`index` is {index!r}; it must be an int from 0 to {self._length - 1}."
            ) from None
        if not -self._length <= number < self._length:
            raise IndexError(f"`index` is {number}; there are {self._length} items.")
        return number % self._length

    def _read_one(self, number: int) -> Any:
        return self._read([number])[0]

    def stats(self) -> CacheStats:
        """Return the cache's contents, and the hits and misses of all processes.

        Examples:
            >>> from echobuf.cache import CachedDataset
            >>> cached = CachedDataset([np.zeros(100)] * 10, max_bytes=5_000)
            >>> items = [cached[i] for i in range(10)]  # half of them fit
            >>> stats = cached.stats()
            >>> stats.misses, stats.items, stats.bytes <= stats.max_bytes
            (10, 5, True)
        """
        items, size = self._store.usage()
        return CacheStats(
            **self._counters.sums(),
            items=items,
            bytes=size,
            max_bytes=self._max_bytes,
            read_only=self._store.read_only,
        )

    def flush(self) -> None:
        """Write to the directory the items that this process still buffers.

        Without a call they are written within a second in which items are read, by
        `stats`, and when the process exits. In memory there is nothing to write.

        Examples:
            >>> from echobuf.cache import CachedDataset
            >>> from tempfile import TemporaryDirectory
            >>> with TemporaryDirectory() as folder:
            ...     cached = CachedDataset([np.zeros(8)] * 4, 10_000, directory=folder)
            ...     item = cached[0]
            ...     cached.flush()
            ...     print(cached.stats().items)
            ...     del cached
            1
        """
        self._store.flush()


def _is_miss(item: Any) -> bool:
    return item is _ABSENT or item is _DAMAGED


def _check_items(items: Any, wanted: int) -> list[Any]:
    """Return the answer of a dataset's `__getitems__` as a list of as many items."""
    is_list = hasattr(items, "__len__") and hasattr(items, "__getitem__")
    if not is_list or isinstance(items, Mapping | str | bytes):
        got = f"a {type(items).__name__}"
    elif len(items) == wanted:
        return list(items)
    else:
        got = "1 item" if len(items) == 1 else f"{len(items)} items"
    raise SpecError(
        f"`dataset.__getitems__` returned {got} for {wanted} indices; it must return a "
        "list of one item for each index, in their order. Mend it, or leave it out of "
        "the class: items are then read one by one."
    )


def _check_dataset(dataset: Any) -> int:
    lacking = [
        name for name in ("__len__", "__getitem__") if not hasattr(dataset, name)
    ]
    if lacking:
        raise OptionError(
            f"`dataset` is a {type(dataset).__name__} without {' and '.join(lacking)}; "
            "a cache needs data that are read by index, a map-style dataset. For those "
            "that are iterated there is none here."
        )
    return len(dataset)


def _check_renewal(renew: Any, seed: int) -> Schedule | None:
    if renew is not None:
        return Schedule(renew, seed)
    if seed:
        raise OptionError(
            f"`seed` is {seed}, without `renew`: an item that is kept for good has no "
            "other. Give `renew`, or leave out `seed`."
        )
    return None


def _check_callable(name: str, value: Any) -> Any:
    if value is None or callable(value):
        return value
    raise OptionError(
        f"`{name}` is {value!r}; it must be a function of an item, or None."
    )
