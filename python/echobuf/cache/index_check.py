"""A check of a store's index, before LMDB follows its pages.

LMDB has no checksums for these pages and trusts them: a damaged one leads it out of
its file, which ends the process. Here the file is read, not mapped, and not trusted:
each page of a tree must be of its kind and be reached once, its entries must lie inside
it in the order of their keys, and point to pages inside the file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_PAGES = 1 << 17  # of the index, that are read: 512 MB, some seconds

_TRIES = 5

_HEADER = struct.Struct("<QHHHH")  # number, -, kind, ends of offsets and free space
_BRANCH, _LEAF, _OVERFLOW, _META = 1, 2, 4, 8
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_META_BODY = struct.Struct("<IIQQ")  # magic, version, address, size of the map
_TREE = struct.Struct("<IHHQQQQQ")
_LAST = struct.Struct("<QQ")  # the last page, the transaction
_NODE_BYTES = 8  # before its key: three parts of a size or a number, the key's size
_OVERFLOWS = 1  # the value of an entry lies on overflow pages
_NO_ROOT = 2**64 - 1
_BY_INTEGER = 8
_MOST_LEVELS = 32  # that LMDB can follow


class BrokenIndexError(OSError):
    """An error of a store whose index is damaged."""


@dataclass(frozen=True)
class _Tree:
    flags: int
    depth: int
    branches: int
    leaves: int
    overflow: int
    entries: int
    root: int


@dataclass(frozen=True)
class _PendingPage:
    """A page to visit, its level in the tree, and the least key that it may have."""

    number: int
    level: int
    least: int | None


@dataclass(frozen=True)
class _Meta:
    page_size: int
    map_size: int
    free: _Tree
    main: _Tree
    last: int
    transaction: int


def check_meta_pages(fd: int) -> None:
    """Check the two meta pages, which LMDB reads first, before it opens the file.

    Raises:
        BrokenIndexError: one of them has impossible values.
    """
    if os.fstat(fd).st_size:
        _read_metas(fd)


def _read_metas(fd: int) -> list[_Meta]:
    for left in reversed(range(_TRIES)):
        try:
            first = _read_meta(fd, 0, None)
            return [first, _read_meta(fd, 1, first.page_size)]
        except BrokenIndexError:  # or half-read, while another process writes it
            if not left:
                raise
    raise AssertionError


def check_index(fd: int, transaction: int) -> bool:
    """Check the index as a transaction sees it, which stays open meanwhile.

    An index of more than `_MOST_PAGES` pages is checked up to there.

    Args:
        fd: the file of the store.
        transaction: its number.

    Returns:
        False where it could not be checked: two other transactions may have been
        committed meanwhile, which have replaced this one's meta page.

    Raises:
        BrokenIndexError: the index is damaged.
    """
    if not os.fstat(fd).st_size:
        return True
    metas = [each for each in _read_metas(fd) if each.transaction == transaction]
    if metas:
        _IndexWalk(fd, metas[0]).check()
    return bool(metas)


def is_replaceable(value: Any, page_size: int) -> bool:
    """Return whether LMDB may free the pages of a value that it has returned.

    Where the value lies on overflow pages, their number stands before it, unchecked.

    Args:
        value: a view of the memory that LMDB has returned.
        page_size: of the store.
    """
    at = np.frombuffer(value, np.uint8)
    address = at.ctypes.data
    if address % page_size != _HEADER.size:
        return True  # the value lies in a page of the index
    if _HEADER.size > address:
        return False
    import ctypes

    head = ctypes.string_at(address - _HEADER.size, _HEADER.size)
    kind, pages = struct.unpack_from("<HI", head, 10)
    return bool(kind == _OVERFLOW and pages == _page_count(len(value), page_size))


def _page_count(size: int, page_size: int) -> int:
    return -(-(_HEADER.size + size) // page_size)


def _require(condition: bool, subject: str) -> None:
    if not condition:
        raise BrokenIndexError(f"its index is damaged: {subject}")


def _read(fd: int, size: int, at: int) -> bytes:
    data = os.pread(fd, size, at)
    _require(len(data) == size, f"it was cut off, before {at + size:,} bytes")
    return data


def _read_meta(fd: int, index: int, page_size: int | None) -> _Meta:
    """Return one of the two meta pages; LMDB takes that of the later transaction."""
    at = index * (page_size or 0)
    data = _read(fd, 256, at)
    number, _, kind, _, _ = _HEADER.unpack_from(data)
    magic, version, _, map_size = _META_BODY.unpack_from(data, _HEADER.size)
    begin = _HEADER.size + _META_BODY.size
    fields = [_TREE.unpack_from(data, begin + i * _TREE.size) for i in (0, 1)]
    last, transaction = _LAST.unpack_from(data, begin + 2 * _TREE.size)
    size = fields[0][0]  # in a field that trees do not use
    _require(
        (magic, version) == (_MAGIC, _VERSION),
        f"page {index} is not that of a store (MDB_INVALID)",
    )
    _require(number == index and kind == _META, f"page {index}")
    _require(size in (page_size, 4096, 8192, 16384, 32768, 65536), "the size of pages")
    _require(page_size in (None, size), "the size of pages")
    trees = [_Tree(*each[1:]) for each in fields]
    _require(
        trees[0].flags == _BY_INTEGER and trees[1].flags == 0, "the kind of a tree"
    )
    _require(fields[1][0] == 0, "the main tree")
    _require(map_size <= 2**48 and last < map_size // size, "its size")
    _require(
        transaction in (0, transaction // 2 * 2 + index), "the number of a transaction"
    )
    return _Meta(size, map_size, trees[0], trees[1], last, transaction)


class _IndexWalk:
    """A walk over the index of one state, which visits each page once."""

    def __init__(self, fd: int, meta: _Meta) -> None:
        self._fd = fd
        self._meta = meta
        self._size = meta.page_size
        self._seen = np.zeros(meta.last + 1, np.bool_)
        self._seen[:2] = True
        self._pages_left = _MOST_PAGES

    def check(self) -> None:
        _require(
            (self._meta.last + 1) * self._size <= os.fstat(self._fd).st_size,
            "it was cut off",
        )
        free = list(self._entries(self._meta.free, by_integer=True))
        for _ in self._entries(self._meta.main, by_integer=False):
            pass
        if self._pages_left > 0:
            for value in free:
                self._check_free_list(value)

    def _check_free_list(self, value: bytes) -> None:
        _require(len(value) >= 8 and len(value) % 8 == 0, "the list of free pages")
        numbers = np.frombuffer(value, "<u8")
        count = int(numbers[0])
        _require(count < len(numbers), "the list of free pages")
        listed = numbers[1 : 1 + count]
        _require(bool((listed <= self._meta.last).all()), "the list of free pages")
        _require(bool((listed[:-1] > listed[1:]).all()), "the list of free pages")
        _require(not self._seen[listed].any(), "a page is free, and used")
        self._seen[listed] = True

    def _entries(self, tree: _Tree, *, by_integer: bool) -> Iterator[bytes]:
        """Check a tree; yield the values where it is the tree of free pages."""
        if tree.root == _NO_ROOT:
            _require(tree.entries == tree.depth == 0, "an empty tree")
            return
        _require(0 < tree.depth <= _MOST_LEVELS, "the depth of a tree")
        self._counts = dict.fromkeys(("branches", "leaves", "overflow", "entries"), 0)
        self._last_key: int | None = None
        # The page to visit next is the last one.
        pending = [_PendingPage(tree.root, 1, None)]
        while pending and self._pages_left > 0:
            page = pending.pop()
            if page.level < tree.depth:
                pending += reversed(self._children(page, by_integer))
            else:
                yield from self._leaf_values(page, by_integer)
        if self._pages_left > 0:
            stated = {name: getattr(tree, name) for name in self._counts}
            _require(stated == self._counts, "the counts of a tree")

    def _children(self, page: _PendingPage, by_integer: bool) -> list[_PendingPage]:
        """Check a branch page; return its children, in order."""
        self._counts["branches"] += 1
        nodes = self._nodes(page.number, _BRANCH)
        # The first entry's key has no meaning: its least key is the parent's.
        keys = nodes.keys(by_integer, first=1)
        _require(bool((keys[:-1] < keys[1:]).all()), "the order of keys")
        children = nodes.low | nodes.high << 16 | nodes.flags << 32
        return [
            _PendingPage(child, page.level + 1, key)
            for child, key in zip(
                children.tolist(), [page.least, *keys.tolist()], strict=True
            )
        ]

    def _leaf_values(self, page: _PendingPage, by_integer: bool) -> Iterator[bytes]:
        """Check a leaf page; yield the values of the tree of free pages."""
        nodes = self._nodes(page.number, _LEAF)
        keys = nodes.keys(by_integer)
        _require(
            bool((keys[:-1] < keys[1:]).all())
            and (page.least is None or int(keys[0]) >= page.least)
            and (self._last_key is None or int(keys[0]) > self._last_key),
            "the order of keys",
        )
        self._last_key = int(keys[-1])
        self._counts["leaves"] += 1
        self._counts["entries"] += len(keys)
        sizes = nodes.low | nodes.high << 16
        overflows = nodes.flags == _OVERFLOWS
        _require(bool((overflows | (nodes.flags == 0)).all()), "the kind of an entry")
        nodes.check_disjoint(np.where(overflows, 8, sizes))
        firsts = nodes.words(nodes.values[overflows], "<u8")
        self._counts["overflow"] += self._claim_overflow(firsts, sizes[overflows])
        if by_integer:
            numbers = np.zeros(len(keys), np.uint64)
            numbers[overflows] = firsts
            for at in range(len(keys)):
                size, begin = int(sizes[at]), int(nodes.values[at])
                if overflows[at]:
                    yield self._value(int(numbers[at]), size)
                else:
                    yield nodes.data[begin : begin + size]

    def _nodes(self, number: int, kind: int) -> _Nodes:
        """Read a page of the index; return its entries."""
        self._pages_left -= 1
        self._claim_pages(number, 1)
        data = _read(self._fd, self._size, number * self._size)
        own, _, found, lower, upper = _HEADER.unpack_from(data)
        count = (lower - _HEADER.size) // 2
        _require(
            own == number
            and found == kind
            and _HEADER.size <= lower <= upper <= self._size
            and lower % 2 == 0
            and count >= (2 if kind == _BRANCH else 1),
            f"page {number}",
        )
        nodes = _Nodes(data, count, upper)
        if kind == _BRANCH:
            nodes.check_disjoint(np.zeros(count, np.int64))
        return nodes

    def _claim_overflow(self, firsts: NDArray[Any], sizes: NDArray[np.int64]) -> int:
        """Mark the overflow pages of values as visited; return their number."""
        counts = -(-(_HEADER.size + sizes) // self._size)
        last = self._meta.last
        _require(
            bool(
                (firsts <= last).all()
                and (firsts + counts.astype("u8") <= last + 1).all()
            ),
            "a page is not there",
        )
        begins = firsts.astype(np.int64)
        order = np.argsort(begins)
        ends = (begins + counts)[order]
        _require(bool((ends[:-1] <= begins[order][1:]).all()), "a page is used twice")
        shift = np.repeat(begins - np.cumsum(counts) + counts, counts)
        pages = shift + np.arange(len(shift))
        _require(not self._seen[pages].any(), "a page is used twice")
        self._seen[pages] = True
        return len(pages)

    def _claim_pages(self, number: int, count: int) -> None:
        _require(number + count <= self._meta.last + 1, "a page is not there")
        _require(not self._seen[number : number + count].any(), "a page is used twice")
        self._seen[number : number + count] = True

    def _value(self, number: int, size: int) -> bytes:
        at = number * self._size
        head = _read(self._fd, _HEADER.size, at)
        own, _, kind, _, _ = _HEADER.unpack(head)
        (count,) = struct.unpack_from("<I", head, 12)
        _require(
            (own, kind, count) == (number, _OVERFLOW, _page_count(size, self._size)),
            "the list of free pages",
        )
        return _read(self._fd, size, at + _HEADER.size)


class _Nodes:
    """The entries of one page, as arrays.

    Attributes:
        data: the page.
        low: bytes 0 and 1 of each entry, the low half of a size or a page number.
        high: bytes 2 and 3.
        flags: bytes 4 and 5.
        values: the offset of each entry's value in the page.
    """

    def __init__(self, data: bytes, count: int, upper: int) -> None:
        self.data = data
        self._bytes = np.frombuffer(data, np.uint8)
        begins = np.frombuffer(data, "<u2", count, _HEADER.size).astype(np.int64)
        _require(
            bool((begins >= upper).all())
            and bool((begins + _NODE_BYTES <= len(data)).all())
            and not (begins % 2).any(),
            "the offsets of entries",
        )
        self._begins = begins
        words = np.frombuffer(data, "<u2").astype(np.int64)
        self.low, self.high, self.flags, self._key_sizes = (
            words[begins // 2 + i] for i in range(4)
        )
        self.values = begins + _NODE_BYTES + self._key_sizes

    def check_disjoint(self, sizes: NDArray[np.int64]) -> None:
        """Check that the entries lie in the page and do not overlap.

        Args:
            sizes: of their values.
        """
        ends = self.values + sizes
        _require(bool((ends <= len(self.data)).all()), "an entry")
        order = np.argsort(self._begins)
        _require(
            bool((ends[order][:-1] <= self._begins[order][1:]).all()), "entries overlap"
        )

    def keys(self, by_integer: bool, first: int = 0) -> NDArray[np.uint64]:
        """Return the keys from entry `first` on, as numbers in the keys' order."""
        sizes = self._key_sizes[first:]
        # Beside the keys of items there is one shorter key, which is the last.
        known = sizes == 8 if by_integer else (sizes == 8) | (sizes == 4)
        _require(bool(known.all()), "a key")
        begins = self._begins[first:] + _NODE_BYTES
        _require(bool((begins + sizes <= len(self.data)).all()), "a key")
        if by_integer:
            return self.words(begins, "<u8")
        keys = self.words(np.minimum(begins, len(self.data) - 8), ">u8")
        for at in np.flatnonzero(sizes == 4).tolist():
            begin = int(begins[at])
            keys[at] = int.from_bytes(self.data[begin : begin + 4], "big") << 32
        return keys

    def words(self, begins: NDArray[np.int64], kind: str) -> NDArray[np.uint64]:
        """Return the eight bytes from each offset on, as numbers of dtype `kind`."""
        gathered: NDArray[Any] = self._bytes[begins[:, None] + np.arange(8)].view(kind)
        return gathered[:, 0].astype(np.uint64)
