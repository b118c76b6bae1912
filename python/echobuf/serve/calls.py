"""What jobs say to a server first, and what it answers."""

from __future__ import annotations

import errno
import socket
import time

from echobuf.errors import EchobufError, OptionError
from echobuf.serve import address, wire
from echobuf.serve.desk import VERSION

_TRY_S = 0.1
_SILENT_S = 5.0
"""A server that has said nothing for so long does not answer."""

Kinds = dict[str, type | tuple[type, ...]]

_ATTACHED: Kinds = {
    "seat": list,
    "lease_s": (int, float),
    "sample": str,
    "length": (int, type(None)),
    "window": int,
    "spilled": bool,
}


class _BusyError(ConnectionError):
    """The server cannot take this connection, and may be able to soon."""


def attach(
    name: str, job: str, timeout: float
) -> tuple[socket.socket, wire.Message, list[int]]:
    """A connection to a server, what it says, and the memory that it shares.

    Raises:
        OptionError: there is no such server within the time, it does not answer, or it
            refuses the job.
        CapacityError: this process has no room for the descriptors.
    """
    end = time.monotonic() + timeout
    while True:
        try:
            return _try_attach(name, job, end)
        except TimeoutError:
            raise address.silent(name) from None
        except OSError as error:  # it is not there yet, or has just gone
            if time.monotonic() > end:
                raise _unreached(name, error) from None
            time.sleep(_TRY_S)


def _try_attach(
    name: str, job: str, end: float
) -> tuple[socket.socket, wire.Message, list[int]]:
    connection = _connect(name, end)
    files: list[int] = []
    try:
        wire.send(connection, {"version": VERSION, "what": "attach", "job": job})
        answer, files = _answer(connection, name, end)
        _check(answer, _ATTACHED)
        if len(files) != 2:
            raise wire.MessageError("no descriptors came")
        connection.settimeout(None)
    except BaseException as error:
        wire.close_files(files)
        connection.close()
        if isinstance(error, wire.MessageError):
            raise address.stranger(name, error) from None
        raise
    return connection, answer, files


def resume(name: str, message: wire.Message, files: tuple[int, int]) -> socket.socket:
    """A connection to a server that has come back, which is handed the memory.

    Raises:
        OSError: it has not, has gone again, or does not answer.
        MessageError: it is another program.
        OptionError: it refuses the job.
    """
    connection = _connect(name, 0.0)
    try:
        wire.send(connection, {"version": VERSION, "what": "resume", **message}, files)
        _, came = _answer(connection, name, 0.0)
        wire.close_files(came)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection


def ask(name: str, what: str, kinds: Kinds) -> wire.Message:
    """What a server says to a question.

    Args:
        name: of the server.
        what: the question.
        kinds: what the answer must have, and of which types.

    Raises:
        OptionError: there is no such server, or it does not answer in time.
        CapacityError: this process has no room for a descriptor.
    """
    end = time.monotonic() + _SILENT_S
    address.check_name(name)
    try:
        with _connect(name, end) as connection:
            wire.send(connection, {"version": VERSION, "what": what})
            answer, files = _next(connection, name, _SILENT_S)
            while "wait" in answer and time.monotonic() < end:
                answer, files = _next(connection, name, _SILENT_S)
            wire.close_files(files)
        if "wait" in answer:
            raise address.beginning(name)
        _check(answer, kinds)
    except TimeoutError:
        raise address.silent(name) from None
    except OSError as error:
        raise _unreached(name, error) from None
    except wire.MessageError as error:
        raise address.stranger(name, error) from None
    return answer


def _connect(name: str, end: float) -> socket.socket:
    """As `address.connect`.

    Raises:
        TimeoutError: too many wait already for this server to answer.
    """
    end = max(end, time.monotonic() + _SILENT_S)
    while True:
        try:
            return address.connect(name, _SILENT_S)
        except BlockingIOError:
            if time.monotonic() > end:
                raise TimeoutError from None
        time.sleep(_TRY_S)


def _answer(
    connection: socket.socket, name: str, end: float
) -> tuple[wire.Message, list[int]]:
    """Return the answer of a server, which says first that it is not there yet.

    Raises:
        TimeoutError: it says nothing.
    """
    while True:
        silence = max(end - time.monotonic(), _SILENT_S)
        answer, files = _next(connection, name, silence)
        if "wait" not in answer:
            return answer, files
        wire.close_files(files)


def _next(
    connection: socket.socket, name: str, seconds: float
) -> tuple[wire.Message, list[int]]:
    answer, files = wire.receive(connection, seconds)
    if answer is not None and not answer.keys() & {"error", "busy"}:
        return answer, files
    wire.close_files(files)
    if answer is None:
        raise ConnectionError(f"{name!r} has gone")
    if "busy" in answer:
        raise _BusyError(str(answer["busy"]))
    raise OptionError(str(answer["error"]))


def _check(answer: wire.Message, kinds: Kinds) -> None:
    for key, kind in kinds.items():
        if not isinstance(answer.get(key), kind):
            raise wire.MessageError(f"its answer has no {key!r}")


def _unreached(name: str, error: OSError) -> EchobufError:
    """The error for a server that there is no connection to."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return wire.no_descriptors()
    if isinstance(error, _BusyError):
        return OptionError(f"{error}; try again.")
    return address.unknown(name)
