"""Requests of jobs to a server: attach, resume, status."""

from __future__ import annotations

import errno
import socket
import time
from typing import Any, get_type_hints

from echobuf.errors import EchobufError, OptionError
from echobuf.serve import address, protocol
from echobuf.serve.protocol import VERSION, Job, ServerInfo, Status

_TRY_S = 0.1
_SILENT_S = 5.0
"""Seconds of silence after which a server is reported as not answering."""


class _BusyError(ConnectionError):
    """An error for a server that is out of threads or descriptors; worth a retry."""


Attached = tuple[socket.socket, list[int], ServerInfo, list[int]]
"""The connection, the job's seat, the server, descriptors of its header and slots,
and of what examples carry, if they do."""


def attach(name: str, job: str, timeout: float) -> Attached:
    """Attach a job to a server.

    Args:
        name: of the server.
        job: name of the job.
        timeout: seconds to wait for the server to start.

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
        except OSError as error:  # the server has not started yet, or has just gone
            if time.monotonic() > end:
                raise _unreached(name, error) from None
            time.sleep(_TRY_S)


def _try_attach(name: str, job: str, end: float) -> Attached:
    connection = _connect(name, end)
    files: list[int] = []
    try:
        protocol.send(connection, {"version": VERSION, "what": "attach", "job": job})
        answer, files = _answer(connection, name, end)
        kinds = get_type_hints(ServerInfo)
        _check(answer, {"seat": list, **kinds})
        said: dict[str, Any] = {key: answer.get(key) for key in kinds}
        if len(files) not in (2, 3):  # with a log of what examples carry
            raise protocol.MessageError("no descriptors came")
        connection.settimeout(None)
    except BaseException as error:
        protocol.close_files(files)
        connection.close()
        if isinstance(error, protocol.MessageError):
            raise address.stranger(name, error) from None
        raise
    return connection, answer["seat"], ServerInfo(**said), files


def resume(
    name: str, message: protocol.Message, files: tuple[int, ...]
) -> socket.socket:
    """Attach a job again to a server that has been replaced; send it the shared memory.

    Raises:
        OSError: there is no server yet, it has gone again, or does not answer.
        MessageError: another program answers.
        OptionError: the server refuses the job.
    """
    connection = _connect(name, 0.0)
    try:
        protocol.send(
            connection, {"version": VERSION, "what": "resume", **message}, files
        )
        _, came = _answer(connection, name, 0.0)
        protocol.close_files(came)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection


def ask(name: str, what: str, kinds: dict[str, Any]) -> protocol.Message:
    """Send a request to a server, and return its answer."""
    end = time.monotonic() + _SILENT_S
    address.check_name(name)
    try:
        with _connect(name, end) as connection:
            protocol.send(connection, {"version": VERSION, "what": what})
            answer, files = _next(connection, name, _SILENT_S)
            while "wait" in answer and time.monotonic() < end:
                answer, files = _next(connection, name, _SILENT_S)
            protocol.close_files(files)
        if "wait" in answer:
            raise address.beginning(name)
        _check(answer, kinds)
    except TimeoutError:
        raise address.silent(name) from None
    except OSError as error:
        raise _unreached(name, error) from None
    except protocol.MessageError as error:
        raise address.stranger(name, error) from None
    return answer


def _connect(name: str, end: float) -> socket.socket:
    """Connect as `address.connect` does; retry while the server's backlog is full."""
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
) -> tuple[protocol.Message, list[int]]:
    """Return the answer of a server; skip messages that ask to wait."""
    while True:
        silence = max(end - time.monotonic(), _SILENT_S)
        answer, files = _next(connection, name, silence)
        if "wait" not in answer:
            return answer, files
        protocol.close_files(files)


def _next(
    connection: socket.socket, name: str, seconds: float
) -> tuple[protocol.Message, list[int]]:
    answer, files = protocol.receive(connection, seconds)
    if answer is not None and not answer.keys() & {"error", "busy"}:
        return answer, files
    protocol.close_files(files)
    if answer is None:
        raise ConnectionError(f"{name!r} has gone")
    if "busy" in answer:
        raise _BusyError(str(answer["busy"]))
    raise OptionError(str(answer["error"]))


def _check(answer: protocol.Message, kinds: dict[str, Any]) -> None:
    for key, kind in kinds.items():
        if not isinstance(answer.get(key), kind):
            raise protocol.MessageError(f"its answer has no {key!r}")


def _unreached(name: str, error: OSError) -> EchobufError:
    """Return the error for a server that cannot be connected to."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return protocol.no_descriptors()
    if isinstance(error, _BusyError):
        return OptionError(f"{error}; try again.")
    return address.unknown(name)


def status(name: str) -> Status:
    """Return the state of a server, which takes half a second to measure rates.

    Args:
        name: of the server.

    Raises:
        OptionError: there is no such server, or it has not answered within 5 seconds:
            it is stopped, or its upstream has not yielded an example yet.
        CapacityError: this process has no file descriptor left.

    Examples:
        >>> with echobuf.serve.Server(range(6), "numbers", window=6):
        ...     status = echobuf.serve.status("numbers")
        >>> status.name, status.running, status.jobs
        ('numbers', False, ())
    """
    answer = ask(name, "status", {"jobs": list})
    try:
        jobs = tuple(Job(**job) for job in answer.pop("jobs"))
        return Status(**answer, jobs=jobs)
    except TypeError as error:
        raise address.stranger(name, error) from None


def names() -> list[str]:
    """Return the names of this user's servers on this machine.

    Examples:
        >>> with echobuf.serve.Server(range(6), "numbers", window=6):
        ...     "numbers" in echobuf.serve.names()
        True
    """
    return address.names()
