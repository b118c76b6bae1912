"""Where servers are found: sockets in a folder that is the user's alone."""

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
from echobuf.forked import track

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_TRIES = 10
_TRY_S = 0.02
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def check_name(name: Any) -> str:
    """The name of a server, or an `OptionError`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(
            f"`name` is {name!r}; it must be 1 to 64 letters, digits, '_', '-' or '.', "
            "and not begin with '-' or '.'."
        )
    return name


def folder() -> Path:
    """The folder of the user's servers; made if it is not there.

    Raises:
        OptionError: it is another user's, or others can enter it.
    """
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
            f"user {user}, for nobody else (mode 700)."
        )
    return path


def place(name: str) -> Path:
    """What the names of a server's files begin with; raises as `folder`."""
    return folder() / name


def names() -> list[str]:
    """The servers that there are."""
    found = sorted(folder().glob("*.sock"))
    return [path.stem for path in found if Lock.is_held(path.with_suffix(""))]


class Lock:
    """Held by the server of a name for as long as it lives, however it ends.

    Raises:
        OptionError: there is such a server already.
    """

    def __init__(self, place: Path) -> None:
        file = os.open(_file(place, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        self._file = io.FileIO(file, "r+")
        if not self._take():
            holder = self.holder(place)
            self._file.close()
            raise OptionError(
                f"`name` is {place.name!r}, which the server of process "
                f"{holder or '?'} has; choose another, or end that one."
            ) from None
        track(self._file)
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)

    def _take(self) -> bool:
        """Whoever looks whether it is held has it, too, for a moment."""
        for _ in range(_TRIES):
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            time.sleep(_TRY_S)
        return False

    @staticmethod
    def holder(place: Path) -> str:
        """The process that has it, as far as that is known; else nothing."""
        with contextlib.suppress(OSError):
            return _file(place, "lock").read_bytes()[:32].decode(errors="replace")
        return ""

    @staticmethod
    def is_held(place: Path) -> bool:
        """Whether there is a server of that name."""
        try:
            file = os.open(_file(place, "lock"), os.O_RDWR)
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
        """Lets another server have the name."""
        self._file.close()


class Left:
    """What a server leaves behind for the next one of its name: that it had jobs."""

    def __init__(self, place: Path) -> None:
        self._path, self._new = _file(place, "jobs"), _file(place, "new")

    def note(self, session: str) -> None:
        """There are jobs."""
        if self.read() == session:  # by its first one, or the server before
            return
        with contextlib.suppress(OSError):  # the folder is gone
            # It may be killed in the middle of this.
            self._new.write_text(json.dumps({"session": session}))
            self._new.replace(self._path)

    def read(self) -> str | None:
        """The session of a server that is gone and had jobs."""
        try:
            return str(json.loads(self._path.read_text())["session"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def clear(self) -> None:
        """There are none any more."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def listen(place: Path) -> socket.socket:
    """The socket of a server whose lock is held."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    track(server)
    path = _file(place, "sock")
    path.unlink(missing_ok=True)  # of a server that was killed
    with _short(path) as short:
        server.bind(short)
    path.chmod(0o600)
    server.listen(64)
    return server


def close(place: Path, server: socket.socket) -> None:
    """Ends a server's socket."""
    with contextlib.suppress(OSError):
        _file(place, "sock").unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # wakes the thread that accepts
        server.shutdown(socket.SHUT_RDWR)
    server.close()


def connect(name: str, seconds: float) -> socket.socket:
    """A connection to the server of that name.

    Args:
        name: of the server.
        seconds: its timeout, which connecting has, too.

    Raises:
        OSError: there is none.
        OptionError: it is another user's.
    """
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    track(client)
    try:
        client.settimeout(seconds)
        with _short(_file(place(name), "sock")) as short:
            client.connect(short)
        check_peer(client)
    except BaseException:
        client.close()
        raise
    return client


def check_peer(connection: socket.socket) -> int:
    """The process at the other end.

    Raises:
        OptionError: it is another user's.
    """
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
    """The error for a server that there is no connection to."""
    if Lock.is_held(place(name)):
        return OptionError(
            f"the server {name!r} (process {Lock.holder(place(name)) or '?'}) is there "
            "and takes no connection: it has just begun, is being closed, or has no "
            "thread or file descriptor left. Try again."
        )
    there = ", ".join(repr(each) for each in names())
    return OptionError(
        f"`name` is {name!r}, and there is no such server on this machine; "
        + (f"there is {there}." if there else "there is none.")
        + " Start one: `echobuf serve FILE:NAME`."
    )


def silent(name: str) -> OptionError:
    """The error for a server that is there and says nothing."""
    process = Lock.holder(place(name))
    return OptionError(
        f"the server {name!r} (process {process or '?'}) is there and does not "
        "answer; it may be stopped (SIGSTOP), out of file descriptors, or too busy. "
        f"Continue it (`kill -CONT {process or 'PROCESS'}`), or end it."
    )


def beginning(name: str) -> OptionError:
    """The error for a server whose upstream has yielded nothing yet."""
    return OptionError(
        f"the server {name!r} has just begun: its upstream has not yielded its first "
        "example yet. Ask again later."
    )


def stranger(name: str, error: Exception) -> OptionError:
    """The error for a socket at which another program answers."""
    return OptionError(f"{name!r} is no server of echobuf's: {error}.")


def _file(place: Path, kind: str) -> Path:
    return place.with_name(f"{place.name}.{kind}")


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A path to the same that a socket's address has room for."""
    parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{parent}/{path.name}"
    finally:
        os.close(parent)
