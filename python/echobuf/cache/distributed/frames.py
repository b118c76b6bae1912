"""What ranks say to each other over a socket: heads of fixed size, nothing pickled.

A connection begins with a greeting, which is answered. Then there are
requests: a head, and what belongs to it; each is answered before the next.
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

ASK, GIVE = 1, 2
REQUEST = struct.Struct("<II")  # which, how many items: then their numbers
ANSWER = struct.Struct("<Q")  # room for more: then the size of each record, and these
# To GIVE belong the sizes of the records, too, and these; its answer is a number.
TAKEN = struct.Struct("<I")
MOST_ITEMS = 1 << 24


class StrangeError(OSError):
    """What came is not what a rank says."""


def words(values: Iterable[int]) -> bytes:
    """Numbers of 64 bits."""
    packed = array.array("Q", values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def numbers(data: bytes | bytearray) -> list[int]:
    """The reverse."""
    packed = array.array("Q", bytes(data))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tolist()
