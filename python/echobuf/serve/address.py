"""Names and sockets of servers, in a folder that only the user can enter."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import re
import socket
import stat
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from echobuf.errors import OptionError
from echobuf.resources import track

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_TRIES = 10
_TRY_S = 0.02
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def check_name(name: Any) -> str:
    """Return the name of a server if it is valid, else raise `OptionError`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(
            f"`name` is {name!r}; it must be 1 to 64 letters, digits, '_', '-' or '.', "
            "and not begin with '-' or '.'."
        )
    return name


def folder() -> Path:
    """Return the folder of the user's servers, which is made if it does not exist."""
    user = os.getuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        path = Path(runtime) / "echobuf"
    else:
        path = Path(tempfile.gettempdir()) / f"echobuf-{user}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        about = path.lstat()
    except OSError as error:
        raise OptionError(
            f"the folder {str(path)!r}, in which servers are found, cannot be made: "
            f"{error.strerror}. Set XDG_RUNTIME_DIR to a folder of yours."
        ) from None
    if not stat.S_ISDIR(about.st_mode):
        raise OptionError(f"{str(path)!r}, where servers are found, is no folder.")
    if about.st_uid != user or about.st_mode & 0o077:
        raise OptionError(
            f"the folder {str(path)!r}, in which servers are found, is of user "
            f"{about.st_uid} with mode {stat.S_IMODE(about.st_mode):o}; it must be of "
            f"user {user}, and closed to others (mode 700)."
        )
    return path


def base_path(name: str) -> Path:
    """Return the path of a server's files without suffix; raises as `folder`."""
    return folder() / name


def names() -> list[str]:
    """Return the names of all running servers."""
    found = sorted(folder().glob("*.sock"))
    return [path.stem for path in found if Lock.is_held(path.with_suffix(""))]


class Lock:
    """The lock of a server's name; released when its process ends, however it ends."""

    def __init__(self, base: Path) -> None:
        file = os.open(_file(base, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        self._file = io.FileIO(file, "r+")
        if not self._take():
            holder = self.holder(base)
            self._file.close()
            raise OptionError(
                f"`name` is {base.name!r}, which the server of process "
                f"{holder or '?'} has; choose another, or end that one."
            ) from None
        track(self._file)
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)

    def _take(self) -> bool:
        """Take the lock; try again, since `is_held` takes it for a moment, too."""
        for _ in range(_TRIES):
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            time.sleep(_TRY_S)
        return False

    @staticmethod
    def holder(base: Path) -> str:
        """Return the number of the process that has it, or "" if unknown."""
        with contextlib.suppress(OSError):
            return _file(base, "lock").read_bytes()[:32].decode(errors="replace")
        return ""

    @staticmethod
    def is_held(base: Path) -> bool:
        """Return True if a server has that name."""
        try:
            file = os.open(_file(base, "lock"), os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(file)
        return False

    def release(self) -> None:
        """Let another server have the name."""
        self._file.close()


class JobMarker:
    """A file that tells the next server of a name that the last one had jobs."""

    def __init__(self, base: Path) -> None:
        self._path, self._new = _file(base, "jobs"), _file(base, "new")

    def note(self, session: str) -> None:
        """Note that the server has jobs."""
        if self.read() == session:  # noted for its first job, or by the last server
            return
        with contextlib.suppress(OSError):  # the folder is gone
            # Replaced in one step, since the server may be killed at any time.
            self._new.write_text(json.dumps({"session": session}))
            self._new.replace(self._path)

    def read(self) -> str | None:
        """Return the session of a server that has gone and had jobs, or None."""
        try:
            return str(json.loads(self._path.read_text())["session"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def clear(self) -> None:
        """Note that there are no jobs."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def listen(base: Path) -> socket.socket:
    """Open the socket of a server whose lock is held."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    track(server)
    path = _file(base, "sock")
    path.unlink(missing_ok=True)  # of a server that was killed
    with short_path(path) as short:
        server.bind(short)
    path.chmod(0o600)
    server.listen(64)
    return server


def close(base: Path, server: socket.socket) -> None:
    """Close the socket of a server."""
    with contextlib.suppress(OSError):
        _file(base, "sock").unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # wakes the thread that accepts
        server.shutdown(socket.SHUT_RDWR)
    server.close()


def connect(name: str, seconds: float) -> socket.socket:
    """Connect to the server of a name."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    track(client)
    try:
        client.settimeout(seconds)
        with short_path(_file(base_path(name), "sock")) as short:
            client.connect(short)
        check_peer(client)
    except BaseException:
        client.close()
        raise
    return client


def check_peer(connection: socket.socket) -> int:
    """Return the process number of the peer."""
    raw = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    process, user, _ = _CREDENTIALS.unpack(raw)
    if user != os.getuid():
        raise OptionError(
            f"the other end of the socket is user {user}; a server and its jobs must "
            f"be one user's, here {os.getuid()}."
        )
    return int(process)


def unknown(name: str) -> OptionError:
    """Return the error for a server that cannot be connected to."""
    if Lock.is_held(base_path(name)):
        return OptionError(
            f"the server {name!r} (process {Lock.holder(base_path(name)) or '?'}) is "
            "there and takes no connection: it has just begun, is being closed, or has "
            "no thread or file descriptor left. Try again."
        )
    there = ", ".join(repr(each) for each in names())
    return OptionError(
        f"`name` is {name!r}, and there is no such server on this machine; "
        + (f"there is {there}." if there else "there is none.")
        + " Start one: `echobuf serve FILE:NAME`."
    )


def silent(name: str) -> OptionError:
    """Return the error for a server that does not answer."""
    process = Lock.holder(base_path(name))
    return OptionError(
        f"the server {name!r} (process {process or '?'}) is there and does not "
        "answer; it may be stopped (SIGSTOP), out of file descriptors, or too busy. "
        f"Continue it (`kill -CONT {process or 'PROCESS'}`), or end it."
    )


def beginning(name: str) -> OptionError:
    """Return the error for a server whose upstream has yielded nothing yet."""
    return OptionError(
        f"the server {name!r} has just begun: its upstream has not yielded its first "
        "example yet. Ask again later."
    )


def stranger(name: str, error: Exception) -> OptionError:
    """Return the error for a socket of another program."""
    return OptionError(f"{name!r} is no server of echobuf's: {error}.")


def _file(base: Path, kind: str) -> Path:
    return base.with_name(f"{base.name}.{kind}")


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield a path to the same file that fits into a socket's address."""
    parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{parent}/{path.name}"
    finally:
        os.close(parent)
