"""What jobs say to a server first, and what it answers."""

from __future__ import annotations

import socket
import time
from typing import Any

from echobuf.errors import OptionError
from echobuf.serve import address, wire
from echobuf.serve.desk import VERSION

_TRY_S = 0.1


def attach(
    name: str, job: str, timeout: float
) -> tuple[socket.socket, wire.Message, list[int]]:
    """A connection to a server, what it says, and the memory that it shares.

    Raises:
        OptionError: there is no such server within the time, or it refuses the job.
    """
    end = time.monotonic() + timeout
    while True:
        try:
            return _try_attach(name, job)
        except OSError:  # it is not there yet, or has just gone
            if time.monotonic() > end:
                raise address.unknown(name) from None
            time.sleep(_TRY_S)


def _try_attach(name: str, job: str) -> tuple[socket.socket, wire.Message, list[int]]:
    connection = address.connect(name)
    try:
        wire.send(connection, {"version": VERSION, "what": "attach", "job": job})
        answer, files = _answer(connection, name)
        if len(files) != 2:
            raise ValueError("no descriptors")
    except ValueError as error:
        connection.close()
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"{name!r} is no server of echobuf's: {error}.") from None
    except BaseException:
        connection.close()
        raise
    return connection, answer, files


def resume(name: str, message: wire.Message, files: tuple[int, int]) -> socket.socket:
    """A connection to a server that has come back, which is handed the memory.

    Raises:
        OSError: it has not, or has gone again.
        OptionError: it refuses the job.
    """
    connection = address.connect(name)
    try:
        wire.send(connection, {"version": VERSION, "what": "resume", **message}, files)
        _answer(connection, name)
    except BaseException:
        connection.close()
        raise
    return connection


def _answer(connection: socket.socket, name: str) -> tuple[wire.Message, list[int]]:
    answer, files = wire.receive(connection)
    if answer is None:
        raise ConnectionError(f"{name!r} has gone")
    if "error" in answer:
        raise OptionError(str(answer["error"]))
    return answer, files


def ask(name: str, what: str) -> Any:
    """What a server says to a question.

    Raises:
        OptionError: there is no such server.
    """
    try:
        connection = address.connect(address.check_name(name))
    except OSError:
        raise address.unknown(name) from None
    with connection:
        try:
            wire.send(connection, {"version": VERSION, "what": what})
            answer, _ = _answer(connection, name)
        except ConnectionError:  # it is being closed
            raise address.unknown(name) from None
        return answer
