"""What a server and its jobs say to each other: JSON, with descriptors beside it."""

from __future__ import annotations

import base64
import json
import os
import pickle
import socket
import struct
import time
from typing import Any

from echobuf.describe_error import describe
from echobuf.errors import CapacityError

_LENGTH = struct.Struct(">I")
_MOST = 1 << 24
_MOST_FILES = 4

Message = dict[str, Any]


class MessageError(ValueError):
    """A message that is none of echobuf's."""


def send(
    connection: socket.socket, message: Message, files: tuple[int, ...] = ()
) -> None:
    """Sends a message, and with it descriptors."""
    text = json.dumps(message).encode()
    whole = _LENGTH.pack(len(text)) + text
    # At once: whoever refuses a message has not closed before its second part.
    sent = socket.send_fds(connection, [whole], list(files)) if files else 0
    if sent < len(whole):  # whoever has it all may be gone: to send nothing is an error
        connection.sendall(whole[sent:])


def receive(
    connection: socket.socket, seconds: float
) -> tuple[Message | None, list[int]]:
    """The next message, and the descriptors that came with it; None at the end.

    Args:
        connection: with a timeout from then on.
        seconds: to wait for the whole of it.

    Raises:
        TimeoutError: it has not come whole within the time.
        MessageError: it is no message.
        CapacityError: this process has no room for the descriptors.
    """
    end = time.monotonic() + seconds
    connection.settimeout(seconds)
    head, files, flags, _ = socket.recv_fds(connection, _LENGTH.size, _MOST_FILES)
    try:
        for file in files:  # programs that are started do not get them
            os.set_inheritable(file, False)
        if flags & socket.MSG_CTRUNC:
            raise no_descriptors()
        whole = _receive_rest(connection, bytearray(head), _LENGTH.size, end)
        message = None
        if len(whole) == _LENGTH.size:
            (length,) = _LENGTH.unpack(whole)
            message = _receive_text(connection, length, end)
    except BaseException:
        close_files(files)
        raise
    return message, files


def _receive_text(connection: socket.socket, length: int, end: float) -> Message | None:
    if length > _MOST:
        raise MessageError(f"a message of {length:,} bytes")
    text = _receive_rest(connection, bytearray(), length, end)
    if len(text) < length:
        return None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"what came is no JSON ({describe(error)})") from None
    if not isinstance(message, dict):
        raise MessageError("what came is no dictionary")
    return message


def _receive_rest(
    connection: socket.socket, got: bytearray, length: int, end: float
) -> bytearray:
    """So many bytes, or fewer if the other end has closed; nothing after nothing."""
    while len(got) < length:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{len(got)} of {length} bytes came in time")
        connection.settimeout(left)
        more = connection.recv(length - len(got))
        if not more:
            break
        got += more
    return got


def no_descriptors() -> CapacityError:
    """The error for a process that can open nothing more."""
    return CapacityError(
        "this process has no file descriptor left, and one that attaches to a server "
        "needs five: close files, or raise the limit (`ulimit -n`)."
    )


def close_files(files: list[int]) -> None:
    """Closes descriptors, and empties the list."""
    while files:
        os.close(files.pop())


def pack(value: Any) -> str:
    """A value of Python's, as text."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpack(text: str) -> Any:
    """The value; its sender is the same user (see `address.check_peer`)."""
    return pickle.loads(base64.b64decode(text))
