"""A file without a name in which processes share what examples carry."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import struct
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from echobuf.errors import ItemError, UpstreamError, describe, message
from echobuf.resources import enough
from echobuf.trees import flatten_with_paths, is_none
from echobuf.workers.messages import pack_item

_GENERATION = 0  # places of words, of 8 bytes each
_SHIFT = 8
_RELEASED = 16
_SEATS = 64
_INDEX = 4096  # place of the first entry
_ENTRY = struct.Struct("=QQq")  # place and bytes of a row, index of the example
_ROWS = 1 << 50  # place of the first region
_REGION_BITS = 42  # of the bytes of a region, of which few are in use
_REGIONS = 1 << 12  # of a generation
_GENERATIONS = 1 << 8
_OF_THIS_PROCESS = _REGIONS - 1
_PENDING = 1 << 22  # bytes that are given back at once
_STEP = 1 << 16  # entries that are looked at together


class ObjectLog:
    """Objects that examples carry, pickled, by number, in memory that processes share.

    A row is written before its example can be drawn, so whoever draws that finds it,
    also where the process that wrote it has died. What is read lies in pages that are
    given back, as later rows are read, or by `release`.

    Args:
        descriptor: of the file.

    Attributes:
        descriptor: the same.
        close: closes it, as the end of this object does.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.close = weakref.finalize(self, os.close, descriptor)
        self.close.atexit = False
        self._given_back: dict[int, int] = {}  # of each region, up to where
        self._read_to: dict[int, int] = {}  # likewise, what was taken
        self._pending = 0  # bytes
        self._begun = 0  # the first row of the term that was begun last
        self._lock = threading.RLock()
        self._writers: dict[int, LogWriter] = {}

    @classmethod
    def create(cls) -> ObjectLog:
        """Return a new one.

        Raises:
            CapacityError: the system refuses such a file.
        """
        with enough("what examples carry", "pass `carry=False`"):
            log = cls(os.memfd_create("echobuf"))
            _write(log.descriptor, b"\0", _ROWS << 1)  # files may be limited in size
        return log

    @classmethod
    def adopt(cls, descriptor: int) -> ObjectLog:
        """Return one that goes on where another process has gone."""
        log = cls(descriptor)
        log._set(_GENERATION, log._get(_GENERATION) + 1)
        return log

    # ---- words

    def _get(self, place: int) -> int:
        return int.from_bytes(
            os.pread(self.descriptor, 8, place), "little", signed=True
        )

    def _set(self, place: int, value: int) -> None:
        os.pwrite(self.descriptor, value.to_bytes(8, "little", signed=True), place)

    @property
    def shift(self) -> int:
        """The number of a row less the number of the item of a pool."""
        return self._get(_SHIFT)

    @shift.setter
    def shift(self, value: int) -> None:
        self._set(_SHIFT, value)

    def note_needed(self, seat: int, number: int) -> None:
        """Note the first row that the job on a seat needs."""
        if self.close.alive:  # else a collection of cycles ends the job
            self._set(_SEATS + 8 * seat, number)

    def needed(self, seat: int) -> int:
        """Return the first row that the job on a seat needs."""
        return self._get(_SEATS + 8 * seat)

    # ---- rows

    def writer(self, process: int = _OF_THIS_PROCESS) -> LogWriter:
        """Return the writer for one process, which goes on behind what it has written.

        Args:
            process: the number of a worker process; by default the one that has it.
        """
        if process not in self._writers:
            self._writers[process] = self._make_writer(process)
        return self._writers[process]

    def _make_writer(self, process: int) -> LogWriter:
        generation = self._get(_GENERATION) % _GENERATIONS
        region = generation * _REGIONS + process % _REGIONS
        return LogWriter(self.descriptor, _ROWS + (region << _REGION_BITS))

    def read(self, numbers: Sequence[int]) -> list[tuple[bytes, int]]:
        """Return rows, and the indices of their examples.

        Raises:
            UpstreamError: one of them is not there.
        """
        return [self._row(entry) for entry in self._entries(numbers)]

    def take(self, numbers: Sequence[int]) -> list[tuple[bytes, int]]:
        """Return the same; nobody reads them again, or rows written before them."""
        entries = self._entries(numbers)
        rows = [self._row(entry) for entry in entries]
        with self._lock:
            for place, length, _ in entries:
                self._read_to[_region(place)] = place + length
                self._pending += length
            if self._pending > _PENDING:
                self._give_back(self._read_to)
                self._read_to, self._pending = {}, 0
        return rows

    def begin(self, number: int) -> None:
        """Begin a term with a row; rows before the last term are needed no more."""
        before, self._begun = self._begun, number
        self.release(before)

    def release(self, number: int) -> None:
        """Give back what rows before `number` take."""
        with self._lock:
            first = self._get(_RELEASED)
            while first < number:
                end = min(number, first + _STEP)
                places, lengths, _ = self._index(first, end).T
                regions = np.where(lengths, (places - _ROWS) >> _REGION_BITS, -1)
                for region in {*regions.tolist()} - {-1}:
                    are_there = regions == region
                    last = int((places + lengths)[are_there].max())
                    self._give_back({region: last})
                _punch(self.descriptor, _place(first), _place(end))
                self._set(_RELEASED, end)
                first = end

    def _give_back(self, ends: dict[int, int]) -> None:
        for region, end in ends.items():
            begin = self._given_back.get(region, _ROWS + (region << _REGION_BITS))
            if end > begin:
                _punch(self.descriptor, begin, end)
            self._given_back[region] = end

    def _index(self, first: int, end: int) -> npt.NDArray[np.int64]:
        size = _ENTRY.size * (end - first)
        raw = os.pread(self.descriptor, size, _place(first)).ljust(size, b"\0")
        return np.frombuffer(raw, np.int64).reshape(-1, 3)

    def _entries(self, numbers: Sequence[int]) -> list[list[int]]:
        if not numbers:
            return []
        first = min(numbers)
        index = self._index(first, max(numbers) + 1)
        entries: list[list[int]] = index[np.asarray(numbers) - first].tolist()
        if not all(length for _, length, _ in entries):
            raise UpstreamError(
                "what an example carries is not there: another epoch has begun, or the "
                "process that should have written it has damaged its memory."
            )
        return entries

    def _row(self, entry: list[int]) -> tuple[bytes, int]:
        place, length, index = entry
        row = os.pread(self.descriptor, length, place)
        while len(row) < length:
            row += os.pread(self.descriptor, length - len(row), place + len(row))
        return row, index


class LogWriter:
    """Writes rows; for one thread.

    Args:
        descriptor: of the file.
        begin: place of the first row.
    """

    def __init__(self, descriptor: int, begin: int) -> None:
        self._descriptor = descriptor
        self._begin = self._at = begin

    def write(self, number: int, row: bytes, index: int) -> None:
        """Write a row: in place of another one of that number, if there is one.

        Args:
            number: of the row.
            row: what is written.
            index: of the example.
        """
        if self._at + len(row) > self._begin + (1 << _REGION_BITS):
            self._at = self._begin
        _write(self._descriptor, row, self._at)
        entry = _ENTRY.pack(self._at, len(row), index)
        os.pwrite(self._descriptor, entry, _place(number))
        self._at += len(row)


def _place(number: int) -> int:
    return _INDEX + _ENTRY.size * number


def _region(place: int) -> int:
    return (place - _ROWS) >> _REGION_BITS


def _write(descriptor: int, data: bytes, place: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, place)
        view, place = view[written:], place + written


_KEEP_SIZE_PUNCH_HOLE = 3
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def _punch(descriptor: int, begin: int, end: int) -> None:
    """Give back the pages that lie within a part of a file."""
    begin, end = -(-begin // _PAGE) * _PAGE, end // _PAGE * _PAGE
    if end <= begin:
        return
    with contextlib.suppress(AttributeError, OSError):  # what stays takes memory
        call = ctypes.CDLL(None).fallocate
        call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        call(descriptor, _KEEP_SIZE_PUNCH_HOLE, begin, end - begin)


# ---- what is in a row


def pack_objects(
    objects: list[Any], paths: Iterable[str], index: int, receiver: str
) -> bytes:
    """Return the carried leaves of an example, pickled.

    Args:
        objects: the leaves.
        paths: of the leaves.
        index: of the example.
        receiver: the process that is to read them.

    Raises:
        ItemError: one of them cannot be pickled.
    """
    try:
        return pickle.dumps(objects, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        named = zip(paths, objects, strict=True)
        raise _unsendable(named, index, error, receiver) from error


def pack_first(example: Any, index: int) -> bytes:
    """Return an example that a worker makes before the others, pickled.

    Raises:
        ItemError: a leaf cannot be pickled.
    """
    try:
        return pack_item(example)
    except Exception as error:
        paths, leaves, _ = flatten_with_paths(example, is_none)
        named = zip(paths, leaves, strict=True)
        raise _unsendable(named, index, error, TRAINER) from error


def unpack(row: bytes, index: int, receiver: str) -> Any:
    """Return what another process has packed.

    Raises:
        ItemError: it cannot be unpickled.
    """
    try:
        return pickle.loads(row)
    except Exception as error:
        raise ItemError(
            f"example {index} of upstream cannot be unpickled in {receiver}: "
            f"{describe(error)}. {_ADVICE}"
        ) from error


TRAINER = "the training process"
JOB = "a job of the server"
_ADVICE = (
    "What other processes make is carried if it can be pickled: yield a path, a key or "
    "the like in its place."
)


def _unsendable(
    leaves: Iterable[tuple[str, Any]], index: int, error: Exception, receiver: str
) -> ItemError:
    name, kind = "example", ""
    for path, leaf in leaves:
        try:
            pickle.dumps(leaf, pickle.HIGHEST_PROTOCOL)
        except Exception as of_leaf:
            name, kind = f"example{path}", f" is of type {type(leaf).__name__}, and"
            error = of_leaf
            break
    return ItemError(
        f"example {index} of upstream cannot be sent to {receiver}: `{name}`{kind} "
        f"cannot be pickled: {message(error).rstrip('.')}. {_ADVICE}"
    )
