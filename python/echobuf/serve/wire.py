"""What a server and its jobs say to each other: JSON, with descriptors beside it."""

from __future__ import annotations

import base64
import json
import os
import pickle
import socket
import struct
from typing import Any

_LENGTH = struct.Struct(">I")
_MOST = 1 << 24
_MOST_FILES = 4

Message = dict[str, Any]


def send(
    connection: socket.socket, message: Message, files: tuple[int, ...] = ()
) -> None:
    """Sends a message, and with it descriptors."""
    text = json.dumps(message).encode()
    whole = _LENGTH.pack(len(text)) + text
    # At once: whoever refuses a message has not closed before its second part.
    sent = socket.send_fds(connection, [whole], list(files)) if files else 0
    connection.sendall(whole[sent:])


def receive(connection: socket.socket) -> tuple[Message | None, list[int]]:
    """The next message, and the descriptors that came with it; None at the end.

    Raises:
        ValueError: it is no message.
    """
    head, files, _, _ = socket.recv_fds(connection, _LENGTH.size, _MOST_FILES)
    for file in files:  # programs that are started do not get them
        os.set_inheritable(file, False)
    while head and len(head) < _LENGTH.size:
        more = connection.recv(_LENGTH.size - len(head))
        if not more:
            return None, files
        head += more
    if not head:
        return None, files
    (length,) = _LENGTH.unpack(head)
    if length > _MOST:
        raise ValueError("a message of that length is none")
    text = bytearray()
    while len(text) < length:
        more = connection.recv(length - len(text))
        if not more:
            return None, files
        text += more
    message = json.loads(text)
    if not isinstance(message, dict):
        raise ValueError("a message is a dictionary")
    return message, files


def pack(value: Any) -> str:
    """A value of Python's, as text."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpack(text: str) -> Any:
    """The value; its sender is the same user (see `address.check_peer`)."""
    return pickle.loads(base64.b64decode(text))
