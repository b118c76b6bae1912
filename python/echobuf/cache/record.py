"""One item as bytes that say whether they are whole; nothing is pickled.

A head with a checksum, the item's structure as JSON, and the bytes of its arrays, each
at a multiple of 16.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

from echobuf import hints
from echobuf.errors import SpecError
from echobuf.plain import NotPlainError, decode, encode

_HEAD = struct.Struct("<4sIQQQ")  # magic, checksum of the rest, number, text, whole
_MAGIC = b"ecb1"
_CHECKED_FROM = 8
HEAD_BYTES = _HEAD.size


class DamagedError(ValueError):
    """The bytes are not those of this item."""


def aligned(size: int) -> int:
    """The next multiple of 16."""
    return -(-size // 16) * 16


class Draft:
    """An item that may become a record: its size is known, nothing is copied yet.

    Args:
        item: of arrays, CPU tensors, numbers, strings, bytes and None, in lists,
            tuples, dicts and sets.

    Raises:
        SpecError: something in it is of another type.
    """

    def __init__(self, item: Any) -> None:
        self._blobs: list[memoryview] = []
        self._places: list[int] = []
        self._end = 0
        try:
            tree = encode(item, "item", self._keep)
        except NotPlainError as error:
            raise SpecError(_refusal(item, error)) from None
        self._text = json.dumps(tree, separators=(",", ":")).encode()
        self._start = aligned(HEAD_BYTES + len(self._text))
        self.size = self._start + aligned(self._end)

    def _keep(self, data: Any) -> list[int]:
        view = memoryview(data)
        place = aligned(self._end)
        self._blobs.append(view)
        self._places.append(place)
        self._end = place + view.nbytes
        return [place, view.nbytes]

    def seal(self, number: int) -> bytearray:
        """The record of the item with this number."""
        record = bytearray(self.size)
        head = (0, number, len(self._text), self.size)
        _HEAD.pack_into(record, 0, _MAGIC, *head)
        view = memoryview(record)
        view[HEAD_BYTES : HEAD_BYTES + len(self._text)] = self._text
        for place, blob in zip(self._places, self._blobs, strict=True):
            begin = self._start + place
            view[begin : begin + blob.nbytes] = blob
        struct.pack_into("<I", record, 4, _checksum(record))
        return record


class Sealed:
    """A record that came from elsewhere, to be stored as it is.

    Args:
        record: a sound one.
    """

    def __init__(self, record: bytearray) -> None:
        self.size = len(record)
        self._record = record

    def seal(self, number: int) -> bytearray:
        """The record, which is that of this item."""
        return self._record


def _refusal(item: Any, error: NotPlainError) -> str:
    image = " (`np.asarray(image)`)" if _has_image(item) else ""
    return (
        f"{error}, which cannot be cached: items are arrays, CPU tensors, numbers, "
        "strings and bytes in lists, tuples and dicts. Make such of it in "
        f"`prepare`{image}."
    )


def _has_image(item: Any) -> bool:
    parts = item.values() if isinstance(item, dict) else item
    parts = parts if isinstance(item, dict | list | tuple) else [item]
    return any(hints.is_of(part, "PIL", "Image") for part in parts)


def _checksum(record: Any) -> int:
    return zlib.crc32(memoryview(record)[_CHECKED_FROM:])


def may_be_whole(record: Any) -> bool:
    """Whether a record begins like one, and is as long as it says.

    Asked of memory that somebody else lays out, before more of it is read.
    """
    if len(record) < HEAD_BYTES:
        return False
    magic, _, _, _, whole = _HEAD.unpack_from(record)
    return bool(magic == _MAGIC and whole == len(record))


def is_sound(record: Any, number: int) -> bool:
    """Whether a record is whole, and that of the item with this number."""
    if not may_be_whole(record):
        return False
    _, checksum, of, _, _ = _HEAD.unpack_from(record)
    return bool(of == number and checksum == _checksum(record))


def read(record: bytearray, number: int) -> Any:
    """The item in a record; its arrays are writable, and lie in the record.

    Raises:
        DamagedError: it is not sound.
    """
    if not is_sound(record, number):
        raise DamagedError
    _, _, _, text, _ = _HEAD.unpack_from(record)
    end = HEAD_BYTES + text
    blobs = memoryview(record)[aligned(end) :]
    try:
        tree = json.loads(record[HEAD_BYTES:end])
        return decode(tree, lambda at: blobs[at[0] : at[0] + at[1]])
    except (ValueError, IndexError) as error:  # sound, but of a library that is no more
        raise DamagedError from error
