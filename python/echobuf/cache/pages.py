"""The pages of a store's index, checked before LMDB follows them.

LMDB has no checksums for them, and believes what they say: a damaged one leads it out
of its file, which ends the process. Here the file is read, not mapped, and nothing is
believed: each page of the tree must be of its kind and be reached once, its entries
must lie in it in the order of their keys, and what they point to in the file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_PAGES = 1 << 17  # of the index that are read: 512 MB, some seconds

_TRIES = 5

_HEAD = struct.Struct("<QHHHH")  # its own number, -, kind, end of the offsets, of room
_BRANCH, _LEAF, _OVERFLOW, _META = 1, 2, 4, 8
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_META_BODY = struct.Struct("<IIQQ")  # magic, version, address, size of the map
_TREE = struct.Struct("<IHHQQQQQ")
_LAST = struct.Struct("<QQ")  # the last page, the transaction
_NODE_BYTES = 8  # before its key: three parts of a size or a number, the key's size
_ELSEWHERE = 1  # the value of an entry lies on pages of its own
_NO_ROOT = 2**64 - 1
_BY_INTEGER = 8
_MOST_LEVELS = 32  # that LMDB can follow


class BrokenIndexError(OSError):
    """The index of a store is damaged."""


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
class _Waiting:
    """A page to visit, its level, and the least key that may stand there."""

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


def check_metas(fd: int) -> None:
    """Check what LMDB reads first, of a file that it has not opened yet.

    Raises:
        BrokenIndexError: one of both places says what cannot be.
    """
    if os.fstat(fd).st_size:
        _metas(fd)


def _metas(fd: int) -> list[_Meta]:
    for left in reversed(range(_TRIES)):
        try:
            first = _meta(fd, 0, None)
            return [first, _meta(fd, 1, first.page_size)]
        except BrokenIndexError:  # or half-read, while another process writes it
            if not left:
                raise
    raise AssertionError


def check_index(fd: int, transaction: int) -> bool:
    """Check the index as a transaction sees it, which is open meanwhile.

    A larger one than `_MOST_PAGES` is checked up to there.

    Args:
        fd: the file of the store.
        transaction: its number.

    Returns:
        Whether it could be: two others may have been committed meanwhile, and what
        says where this one begins is then gone.

    Raises:
        BrokenIndexError: it is damaged.
    """
    if not os.fstat(fd).st_size:
        return True
    metas = [each for each in _metas(fd) if each.transaction == transaction]
    if metas:
        _Walk(fd, metas[0]).check()
    return bool(metas)


def is_replaceable(value: Any, page_size: int) -> bool:
    """Say whether LMDB may free the pages of a value that it has given.

    Where the value has pages of its own, their number stands before it, unchecked.

    Args:
        value: a view of the memory that LMDB has given.
        page_size: of the store.
    """
    at = np.frombuffer(value, np.uint8)
    address = at.ctypes.data
    if address % page_size != _HEAD.size:
        return True  # it lies in a page of the index
    if _HEAD.size > address:
        return False
    import ctypes

    head = ctypes.string_at(address - _HEAD.size, _HEAD.size)
    kind, pages = struct.unpack_from("<HI", head, 10)
    return bool(kind == _OVERFLOW and pages == _pages(len(value), page_size))


def _pages(size: int, page_size: int) -> int:
    return -(-(_HEAD.size + size) // page_size)


def _demand(fulfilled: bool, what: str) -> None:
    if not fulfilled:
        raise BrokenIndexError(f"its index is damaged: {what}")


def _read(fd: int, size: int, at: int) -> bytes:
    data = os.pread(fd, size, at)
    _demand(len(data) == size, f"it was cut off, before {at + size:,} bytes")
    return data


def _meta(fd: int, place: int, page_size: int | None) -> _Meta:
    """One of the two states of the store, of which LMDB takes the later one."""
    at = place * (page_size or 0)
    data = _read(fd, 256, at)
    number, _, kind, _, _ = _HEAD.unpack_from(data)
    magic, version, _, map_size = _META_BODY.unpack_from(data, _HEAD.size)
    begin = _HEAD.size + _META_BODY.size
    fields = [_TREE.unpack_from(data, begin + i * _TREE.size) for i in (0, 1)]
    last, transaction = _LAST.unpack_from(data, begin + 2 * _TREE.size)
    size = fields[0][0]  # kept where a tree would have its own
    _demand(
        (magic, version) == (_MAGIC, _VERSION),
        f"page {place} says that it is no store (MDB_INVALID)",
    )
    _demand(number == place and kind == _META, f"page {place}")
    _demand(size in (page_size, 4096, 8192, 16384, 32768, 65536), "the size of pages")
    _demand(page_size in (None, size), "the size of pages")
    trees = [_Tree(*each[1:]) for each in fields]
    _demand(trees[0].flags == _BY_INTEGER and trees[1].flags == 0, "the kind of a tree")
    _demand(fields[1][0] == 0, "the main tree")
    _demand(map_size <= 2**48 and last < map_size // size, "its size")
    _demand(
        transaction in (0, transaction // 2 * 2 + place), "the number of a transaction"
    )
    return _Meta(size, map_size, trees[0], trees[1], last, transaction)


class _Walk:
    """Every page of the index of one state, once."""

    def __init__(self, fd: int, meta: _Meta) -> None:
        self._fd = fd
        self._meta = meta
        self._size = meta.page_size
        self._seen = np.zeros(meta.last + 1, np.bool_)
        self._seen[:2] = True
        self._left = _MOST_PAGES

    def check(self) -> None:
        _demand(
            (self._meta.last + 1) * self._size <= os.fstat(self._fd).st_size,
            "it was cut off",
        )
        free = list(self._entries(self._meta.free, by_integer=True))
        for _ in self._entries(self._meta.main, by_integer=False):
            pass
        if self._left > 0:
            for value in free:
                self._check_free(value)

    def _check_free(self, value: bytes) -> None:
        _demand(len(value) >= 8 and len(value) % 8 == 0, "the list of free pages")
        numbers = np.frombuffer(value, "<u8")
        count = int(numbers[0])
        _demand(count < len(numbers), "the list of free pages")
        listed = numbers[1 : 1 + count]
        _demand(bool((listed <= self._meta.last).all()), "the list of free pages")
        _demand(bool((listed[:-1] > listed[1:]).all()), "the list of free pages")
        _demand(not self._seen[listed].any(), "a page is free, and used")
        self._seen[listed] = True

    def _entries(self, tree: _Tree, *, by_integer: bool) -> Iterator[bytes]:
        """Check a tree; the values of the free pages' one."""
        if tree.root == _NO_ROOT:
            _demand(tree.entries == tree.depth == 0, "an empty tree")
            return
        _demand(0 < tree.depth <= _MOST_LEVELS, "the depth of a tree")
        self._counts = dict.fromkeys(("branches", "leaves", "overflow", "entries"), 0)
        self._last_key: int | None = None
        # Pages that are yet to be visited, the next one last.
        waiting = [_Waiting(tree.root, 1, None)]
        while waiting and self._left > 0:
            page = waiting.pop()
            if page.level < tree.depth:
                waiting += reversed(self._below(page, by_integer))
            else:
                yield from self._values(page, by_integer)
        if self._left > 0:
            said = {name: getattr(tree, name) for name in self._counts}
            _demand(said == self._counts, "what a tree says of itself")

    def _below(self, page: _Waiting, by_integer: bool) -> list[_Waiting]:
        """Check a branch; its children, in order."""
        self._counts["branches"] += 1
        nodes = self._nodes(page.number, _BRANCH)
        # The first has no key that counts: before it there is the parent's.
        keys = nodes.keys(by_integer, first=1)
        _demand(bool((keys[:-1] < keys[1:]).all()), "the order of keys")
        children = nodes.low | nodes.high << 16 | nodes.flags << 32
        return [
            _Waiting(child, page.level + 1, key)
            for child, key in zip(
                children.tolist(), [page.least, *keys.tolist()], strict=True
            )
        ]

    def _values(self, page: _Waiting, by_integer: bool) -> Iterator[bytes]:
        """Check a leaf; the values of the free pages' tree."""
        nodes = self._nodes(page.number, _LEAF)
        keys = nodes.keys(by_integer)
        _demand(
            bool((keys[:-1] < keys[1:]).all())
            and (page.least is None or int(keys[0]) >= page.least)
            and (self._last_key is None or int(keys[0]) > self._last_key),
            "the order of keys",
        )
        self._last_key = int(keys[-1])
        self._counts["leaves"] += 1
        self._counts["entries"] += len(keys)
        sizes = nodes.low | nodes.high << 16
        apart = nodes.flags == _ELSEWHERE
        _demand(bool((apart | (nodes.flags == 0)).all()), "the kind of an entry")
        nodes.check_apart(np.where(apart, 8, sizes))
        firsts = nodes.words(nodes.values[apart], "<u8")
        self._counts["overflow"] += self._claim_values(firsts, sizes[apart])
        if by_integer:
            numbers = np.zeros(len(keys), np.uint64)
            numbers[apart] = firsts
            for at in range(len(keys)):
                size, begin = int(sizes[at]), int(nodes.values[at])
                if apart[at]:
                    yield self._value(int(numbers[at]), size)
                else:
                    yield nodes.data[begin : begin + size]

    def _nodes(self, number: int, kind: int) -> _Nodes:
        """The entries of a page of the index."""
        self._left -= 1
        self._claim(number, 1)
        data = _read(self._fd, self._size, number * self._size)
        own, _, what, lower, upper = _HEAD.unpack_from(data)
        count = (lower - _HEAD.size) // 2
        _demand(
            own == number
            and what == kind
            and _HEAD.size <= lower <= upper <= self._size
            and lower % 2 == 0
            and count >= (2 if kind == _BRANCH else 1),
            f"page {number}",
        )
        nodes = _Nodes(data, count, upper)
        if kind == _BRANCH:
            nodes.check_apart(np.zeros(count, np.int64))
        return nodes

    def _claim_values(self, firsts: NDArray[Any], sizes: NDArray[np.int64]) -> int:
        """Values on pages of their own: how many pages."""
        counts = -(-(_HEAD.size + sizes) // self._size)
        last = self._meta.last
        _demand(
            bool(
                (firsts <= last).all()
                and (firsts + counts.astype("u8") <= last + 1).all()
            ),
            "a page is not there",
        )
        begins = firsts.astype(np.int64)
        order = np.argsort(begins)
        ends = (begins + counts)[order]
        _demand(bool((ends[:-1] <= begins[order][1:]).all()), "a page is used twice")
        shift = np.repeat(begins - np.cumsum(counts) + counts, counts)
        pages = shift + np.arange(len(shift))
        _demand(not self._seen[pages].any(), "a page is used twice")
        self._seen[pages] = True
        return len(pages)

    def _claim(self, number: int, count: int) -> None:
        _demand(number + count <= self._meta.last + 1, "a page is not there")
        _demand(not self._seen[number : number + count].any(), "a page is used twice")
        self._seen[number : number + count] = True

    def _value(self, number: int, size: int) -> bytes:
        at = number * self._size
        head = _read(self._fd, _HEAD.size, at)
        own, _, kind, _, _ = _HEAD.unpack(head)
        (count,) = struct.unpack_from("<I", head, 12)
        _demand(
            (own, kind, count) == (number, _OVERFLOW, _pages(size, self._size)),
            "the list of free pages",
        )
        return _read(self._fd, size, at + _HEAD.size)


class _Nodes:
    """The entries of one page, as arrays.

    Attributes:
        data: the page.
        low: the first two bytes of each; a size or a number begins there.
        high: the next two.
        flags: the next two.
        values: where the value of each lies in the page.
    """

    def __init__(self, data: bytes, count: int, upper: int) -> None:
        self.data = data
        self._bytes = np.frombuffer(data, np.uint8)
        begins = np.frombuffer(data, "<u2", count, _HEAD.size).astype(np.int64)
        _demand(
            bool((begins >= upper).all())
            and bool((begins + _NODE_BYTES <= len(data)).all())
            and not (begins % 2).any(),
            "where the entries of a page lie",
        )
        self._begins = begins
        words = np.frombuffer(data, "<u2").astype(np.int64)
        self.low, self.high, self.flags, self._key_sizes = (
            words[begins // 2 + i] for i in range(4)
        )
        self.values = begins + _NODE_BYTES + self._key_sizes

    def check_apart(self, sizes: NDArray[np.int64]) -> None:
        """Check that they lie in the page, one behind another.

        Args:
            sizes: of their values.
        """
        ends = self.values + sizes
        _demand(bool((ends <= len(self.data)).all()), "an entry")
        order = np.argsort(self._begins)
        _demand(
            bool((ends[order][:-1] <= self._begins[order][1:]).all()), "entries overlap"
        )

    def keys(self, by_integer: bool, first: int = 0) -> NDArray[np.uint64]:
        """The keys from the entry `first` on, as numbers in their order."""
        sizes = self._key_sizes[first:]
        # Beside the numbers of items there is one shorter key, which is the last.
        known = sizes == 8 if by_integer else (sizes == 8) | (sizes == 4)
        _demand(bool(known.all()), "a key")
        begins = self._begins[first:] + _NODE_BYTES
        _demand(bool((begins + sizes <= len(self.data)).all()), "a key")
        if by_integer:
            return self.words(begins, "<u8")
        keys = self.words(np.minimum(begins, len(self.data) - 8), ">u8")
        for at in np.flatnonzero(sizes == 4).tolist():
            begin = int(begins[at])
            keys[at] = int.from_bytes(self.data[begin : begin + 4], "big") << 32
        return keys

    def words(self, begins: NDArray[np.int64], kind: str) -> NDArray[np.uint64]:
        """Eight bytes each, wherever they begin."""
        gathered: NDArray[Any] = self._bytes[begins[:, None] + np.arange(8)].view(kind)
        return gathered[:, 0].astype(np.uint64)
