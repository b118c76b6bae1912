"""The messages between ranks over a socket: headers of fixed size, nothing pickled.

A client sends a greeting, and the server a welcome. Then the client sends requests, a
header and a body each, and the server responds to each before the next.
"""

from __future__ import annotations

import array
import struct
import sys
from collections.abc import Iterable

GREETING = struct.Struct("<8s32s")  # magic, token
MAGIC = b"ecbpeer1"
WELCOME = b"ecbhello"
TOKEN_BYTES = 32

GET, PUT = 1, 2
REQUEST = struct.Struct("<II")  # kind, count; then the numbers of the items
# To a GET: the free bytes; then the size of each encoded item (0: none), and these.
GET_RESPONSE = struct.Struct("<Q")
# The body of a PUT has the sizes of the encoded items, too, and these.
PUT_RESPONSE = struct.Struct("<I")  # the number of items that were valid
MOST_ITEMS = 1 << 24


class ProtocolError(OSError):
    """An error of a message that is not one of this protocol."""


def pack_numbers(values: Iterable[int]) -> bytes:
    """Return numbers as 64-bit words."""
    packed = array.array("Q", values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_numbers(data: bytes | bytearray) -> list[int]:
    """Return the numbers that `pack_numbers` has packed."""
    packed = array.array("Q", bytes(data))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tolist()
