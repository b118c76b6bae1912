"""Encoded items: bytes with a checksum, and the item's structure; nothing is pickled.

A header with a checksum, the item's structure as JSON, and the bytes of its arrays,
each at a multiple of 16. The magic says which checksum it is: CRC-32, or that of
`checksum.py`, which takes a quarter of the time for large items.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

from echobuf import hints
from echobuf.cache.checksum import sum_words
from echobuf.errors import SpecError
from echobuf.plain import NotPlainError, decode, encode

_HEADER = struct.Struct("<4sIQQQ")  # magic, checksum of the rest, number, text, size
_CHECKED_FROM = 8
_CHECKSUMS: dict[bytes, Callable[[Any], int]] = {
    b"ecb1": zlib.crc32,
    b"ecb2": sum_words,
}
_LARGE = 16384  # bytes from which `sum_words` is the faster one
HEADER_BYTES = _HEADER.size


class DamagedError(ValueError):
    """An error of bytes that are not those of the item."""


def align(size: int) -> int:
    """Return the next multiple of 16."""
    return -(-size // 16) * 16


class ItemEncoder:
    """An item to be encoded: the size is known, and nothing is copied yet.

    Args:
        item: of arrays, CPU tensors, numbers, strings, bytes and None, in lists,
            tuples, dicts and sets.
    """

    def __init__(self, item: Any) -> None:
        self._blobs: list[memoryview] = []
        self._offsets: list[int] = []
        self._end = 0
        try:
            tree = encode(item, "item", self._add_blob)
        except NotPlainError as error:
            raise SpecError(_explain_refusal(item, error)) from None
        self._text = json.dumps(tree, separators=(",", ":")).encode()
        self._start = align(HEADER_BYTES + len(self._text))
        self.size = self._start + align(self._end)

    def _add_blob(self, data: Any) -> list[int]:
        view = memoryview(data)
        offset = align(self._end)
        self._blobs.append(view)
        self._offsets.append(offset)
        self._end = offset + view.nbytes
        return [offset, view.nbytes]

    def encode(self, number: int) -> bytearray:
        """Return the encoded item, as that with this number."""
        encoded = bytearray(self.size)
        header = (0, number, len(self._text), self.size)
        magic = b"ecb1" if self.size < _LARGE else b"ecb2"
        _HEADER.pack_into(encoded, 0, magic, *header)
        view = memoryview(encoded)
        view[HEADER_BYTES : HEADER_BYTES + len(self._text)] = self._text
        for offset, blob in zip(self._offsets, self._blobs, strict=True):
            begin = self._start + offset
            view[begin : begin + blob.nbytes] = blob
        struct.pack_into("<I", encoded, 4, _CHECKSUMS[magic](view[_CHECKED_FROM:]))
        return encoded


class EncodedItem:
    """An item that another process has encoded, to be stored as it is."""

    def __init__(self, encoded: bytearray) -> None:
        self.size = len(encoded)
        self._encoded = encoded

    def encode(self, number: int) -> bytearray:
        """Return the encoded item, which must have this number."""
        return self._encoded


def _explain_refusal(item: Any, error: NotPlainError) -> str:
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


def is_valid(encoded: Any, number: int) -> bool:
    """Return whether bytes are the undamaged item with this number."""
    if len(encoded) < HEADER_BYTES:
        return False
    magic, checksum, own_number, _, size = _HEADER.unpack_from(encoded)
    compute = _CHECKSUMS.get(magic)
    if compute is None or own_number != number or size != len(encoded) or size % 16:
        return False
    return bool(checksum == compute(memoryview(encoded)[_CHECKED_FROM:]))


def number_of(encoded: Any) -> int | None:
    """Return the number in the header of an item; None if there is no header."""
    if len(encoded) < HEADER_BYTES:
        return None
    magic, _, number, _, _ = _HEADER.unpack_from(encoded)
    return int(number) if magic in _CHECKSUMS else None


def decode_item(encoded: bytearray, number: int) -> Any:
    """Return the item; its arrays are writable views of `encoded`."""
    if not is_valid(encoded, number):
        raise DamagedError
    _, _, _, text, _ = _HEADER.unpack_from(encoded)
    end = HEADER_BYTES + text
    blobs = memoryview(encoded)[align(end) :]
    try:
        tree = json.loads(encoded[HEADER_BYTES:end])
        return decode(tree, lambda at: blobs[at[0] : at[0] + at[1]])
    except (ValueError, IndexError) as error:  # valid, but of a library now missing
        raise DamagedError from error
