"""Compiles operations of somebody else's for the host, once, and loads them."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from echobuf._include import get_include
from echobuf.errors import OptionError

_FLAGS = ("-std=c++20", "-O3", "-fPIC", "-shared", "-ffp-contract=off")
_VERSION = 1  # of `CustomTable`
_loaded: dict[str, ctypes.CDLL] = {}  # for ever: buffers have addresses of theirs
_loading = threading.Lock()
# What was compiled, by the address of its table: it changes with any header.
keys: dict[int, str] = {}


class _Table(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("settings_bytes", ctypes.c_uint32))


def load(source: str, include: Sequence[Path], what: str) -> tuple[int, int]:
    """The address of the table that a source file defines, and its settings' bytes.

    Args:
        source: C++, with `ECHOBUF_OPERATION` in it.
        include: folders of headers, besides echobuf's.
        what: for messages.

    Raises:
        OptionError: there is no compiler, or it refuses the source.
    """
    folders = [*include, Path(get_include())]
    flags = [*_FLAGS, *(f"-I{folder}" for folder in folders)]
    with _loading:
        compiler = _compiler(what)
        library, key = _loaded_for(source, [*compiler, *flags], what)
    operation = library.echobuf_operation
    operation.restype = ctypes.POINTER(_Table)
    table = operation()
    if table.contents.version != _VERSION:
        raise OptionError(f"{what} was compiled for another version of echobuf.")
    address = ctypes.cast(table, ctypes.c_void_p).value
    assert address is not None
    keys[address] = key
    return address, table.contents.settings_bytes


def _loaded_for(source: str, command: list[str], what: str) -> tuple[ctypes.CDLL, str]:
    # What the preprocessor makes of it holds all headers.
    whole = _run([*command, "-E", "-P", "-x", "c++", "-"], source, what)
    key = hashlib.sha256("\0".join([*command, whole]).encode()).hexdigest()
    if key not in _loaded:
        path = _cache() / f"{key}.so"
        if not path.exists():
            _compile(source, command, path, what)
        _loaded[key] = ctypes.CDLL(str(path))
    return _loaded[key], key


def _compile(source: str, command: list[str], path: Path, what: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another process may compile the same: each into a file of its own.
        handle, part = tempfile.mkstemp(suffix=".so", dir=path.parent)
    except OSError as error:
        raise OptionError(
            f"{what} is compiled into {path.parent}, which cannot be written to: "
            f"{error}. Set XDG_CACHE_HOME to a folder that can."
        ) from error
    os.close(handle)
    try:
        _run([*command, "-x", "c++", "-", "-o", part], source, what)
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)


def _run(command: list[str], source: str, what: str) -> str:
    try:
        done = subprocess.run(
            command, input=source, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise OptionError(
            f"{what} cannot be compiled: {command[0]!r} does not run: {error}."
        ) from error
    if done.returncode:
        raise OptionError(
            f"{what} cannot be compiled: `{shlex.join(command)}` says\n{done.stderr}"
        )
    return done.stdout


def _compiler(what: str) -> list[str]:
    chosen = os.environ.get("CXX")
    if chosen:
        return shlex.split(chosen)
    for name in ("c++", "g++", "clang++"):
        if found := shutil.which(name):
            return [found]
    raise OptionError(
        f"{what} must be compiled, and there is no C++ compiler: install g++ or "
        "clang++, or name one in the environment variable CXX."
    )


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "echobuf"
