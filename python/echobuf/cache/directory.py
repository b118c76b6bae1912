"""A cache's directory: whose it is stands in a file, before anything else is in it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echobuf.errors import OptionError
from echobuf.limits import explain

_MARKER = "echobuf-cache.json"
_DRAFT = ".echobuf-cache-"
_FORMAT = "echobuf-cache"
_VERSION = 1
STORE = "data.mdb"
LOCK = "lock.mdb"
_OR_DELETE = ", or delete this one if nobody needs it"
LEAST_FREE = 1 << 20
"""Bytes: with less the disk counts as full. The store's lock file is mapped memory:
where there is no room for it, writing there ends the process."""


@dataclass(frozen=True)
class Contents:
    """What a cache is a cache of."""

    identity: str
    length: int


@dataclass(frozen=True)
class Directory:
    """A directory that is this cache's.

    Attributes:
        path: where it is.
        read_only: nothing can be written there.
        full: its disk is.
    """

    path: Path
    read_only: bool
    full: bool

    @property
    def store(self) -> Path:
        """The file of the store."""
        return self.path / STORE


def claim(directory: Any, contents: Contents) -> Directory:
    """Makes the directory this cache's, or sees that it is; writes nothing else.

    Raises:
        OptionError: it is another program's, of other data, of another version, or
            cannot be used.
        CapacityError: there are too few descriptors to look.
    """
    path = Path(_check_path(directory))
    try:
        return _claim(path, contents)
    except OSError as error:
        clear = explain(error, f"the cache in {str(path)!r}", "keep fewer caches")
        if clear is not None:
            raise clear from error
        raise _refused(path, f"cannot be used: {error.strerror or error}.") from error


def _check_path(directory: Any) -> str:
    try:
        path = os.fsdecode(directory)
        if not path or "\0" in path:
            raise TypeError
        return os.path.abspath(path)
    except TypeError:
        raise OptionError(
            f"`directory` is {directory!r}; it must be a path, or None to cache in "
            "memory."
        ) from None


def _claim(path: Path, contents: Contents) -> Directory:
    if path.exists() and not path.is_dir():
        raise _refused(path, "is a file, not a directory.")
    made = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    found = {name for name in os.listdir(path) if not name.startswith(_DRAFT)}
    # A listing may show files that came after the marker, and not the marker.
    if _MARKER not in found and not (path / _MARKER).exists():
        try:
            _check_unused(path, found)
            _mark(path, contents)
        except Exception:
            if made:
                with contextlib.suppress(OSError):  # another process uses it by now
                    path.rmdir()
            raise
    _check_marker(path, contents)
    return _as_it_is(path)


def _check_unused(path: Path, found: set[str]) -> None:
    if found:
        names = ", ".join(sorted(found)[:3]) + (", ..." if len(found) > 3 else "")
        raise _refused(path, f"has files that are no cache of echobuf's: {names}.")
    if not os.access(path, os.W_OK):
        raise _refused(path, "cannot be written to, and holds no cache.")
    free = _free_bytes(path)
    if free < LEAST_FREE:
        raise _refused(
            path,
            f"is on a disk that is full: {free:,} bytes are free, {LEAST_FREE:,} are "
            "needed.",
        )


def _mark(path: Path, contents: Contents) -> None:
    """Writes the marker whole, unless another process was faster."""
    marker = {
        "format": _FORMAT,
        "version": _VERSION,
        "identity": contents.identity,
        "length": contents.length,
    }
    draft = path / f"{_DRAFT}{secrets.token_hex(8)}"
    try:
        # Made by name, unlike `mkstemp`: the system then applies the umask.
        with open(draft, "x") as file:
            json.dump(marker, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path / _MARKER)
    finally:
        draft.unlink(missing_ok=True)


def _check_marker(path: Path, contents: Contents) -> None:
    try:
        marker = json.loads((path / _MARKER).read_bytes())
        known = marker["format"] == _FORMAT
        version, identity, length = (
            marker.get(key) for key in ("version", "identity", "length")
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        known = False
    if not known:
        raise _refused(path, f"has a file {_MARKER} that echobuf did not write.")
    if version != _VERSION:
        raise _refused(
            path,
            f"is a cache of version {version!r}; this version of echobuf reads "
            f"version {_VERSION}.",
            _OR_DELETE,
        )
    if (identity, length) != (contents.identity, contents.length):
        raise _refused(
            path,
            f"is a cache of other data: of {length!r} items with `identity` "
            f"{identity!r}; here there are {contents.length} with "
            f"{contents.identity!r}.",
            _OR_DELETE,
        )


def _as_it_is(path: Path) -> Directory:
    files = [path, *(path / name for name in (STORE, LOCK) if (path / name).exists())]
    read_only = not all(os.access(file, os.W_OK) for file in files)
    if read_only and not (path / STORE).exists():
        raise _refused(path, "cannot be written to, and holds nothing.")
    full = not read_only and _free_bytes(path) < LEAST_FREE
    if full and not (path / STORE).exists():
        raise _refused(path, "is on a disk that is full, and holds nothing.")
    return Directory(path, read_only, full)


def _free_bytes(path: Path) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _refused(path: Path, why: str, more: str = "") -> OptionError:
    return OptionError(
        f"`directory` is {str(path)!r}, which {why} Nothing in it was changed; give a "
        f"new or empty directory{more}."
    )
