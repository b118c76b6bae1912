"""LMDB environments: one for each directory and process."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from echobuf.cache.directory import LOCK, Directory
from echobuf.cache.index_check import check_index, check_meta_pages
from echobuf.errors import OptionError
from echobuf.resources import explain

_READERS = 1024
_TRIES = 100  # to read the state of a transaction, while other processes commit
_CLOSING_S = 5.0  # for another thread to close an environment that it dropped
_IS_OPEN = "already open in this process"  # in the message of LMDB's binding
_LEAST_MAP = 1 << 36  # addresses; memory and disk are taken as they are used


class _OpenEnvironments:
    """The environments of this process, by device and inode of their files.

    Attributes:
        lock: held while LMDB is called, and while the process forks: a child can close
            only environments that no thread was using.
        by_inode: the environments.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.by_inode: weakref.WeakValueDictionary[tuple[int, int], Any] = (
            weakref.WeakValueDictionary()
        )

    def before_fork(self) -> None:
        """Take the lock, so that no thread uses an environment."""
        self.lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Release the lock."""
        self.lock.release()

    def after_fork_in_child(self) -> None:
        """Close the environments of the parent, which a child may not use."""
        inherited = list(self.by_inode.values())
        self.__init__()  # type: ignore[misc]
        for environment in inherited:
            environment.close()


_open = _OpenEnvironments()
os.register_at_fork(
    before=_open.before_fork,
    after_in_parent=_open.after_fork_in_parent,
    after_in_child=_open.after_fork_in_child,
)


def lock() -> Any:
    """Return the lock that a thread holds while it calls LMDB."""
    return _open.lock


def import_lmdb() -> Any:
    """Return the package `lmdb`, which only a cache in a directory needs.

    Raises:
        OptionError: it is not installed.
    """
    try:
        import lmdb
    except ImportError as error:
        raise OptionError(
            "`directory` is given, but the package lmdb is not installed: "
            "`pip install 'data-echoing[cache]'`, or leave `directory` out to cache in "
            "memory."
        ) from error
    return lmdb


def open_environment(directory: Directory, max_bytes: int) -> Any:
    """Return this process's environment of a directory; open it if need be.

    Args:
        directory: of the cache.
        max_bytes: of its items.

    Raises:
        OptionError: the store cannot be opened.
        CapacityError: there are too few descriptors.
    """
    lmdb = import_lmdb()
    with _open.lock:
        environment = _open.by_inode.get(_inode(directory))
        if environment is None:
            try:
                environment = _open_checked(lmdb, directory, max_bytes)
            except (lmdb.Error, OSError) as error:
                where = str(directory.path)
                clear = explain(error, f"the cache in {where!r}", "keep fewer caches")
                if clear is not None:
                    raise clear from error
                raise OptionError(
                    f"`directory` is {str(directory.path)!r}, whose store cannot be "
                    f"opened: {error}. Delete the directory if it is damaged, or give "
                    "another one."
                ) from error
            _open.by_inode[_inode(directory)] = environment
        return environment


def _inode(directory: Directory) -> tuple[int, int]:
    """Return device and inode of the store's file; unique while the file is open."""
    if not directory.store.exists():
        return -1, -1
    status = directory.store.stat()
    return status.st_dev, status.st_ino


def _open_checked(lmdb: Any, directory: Directory, max_bytes: int) -> Any:
    _check_file(directory, check_meta_pages)
    unwritable = directory.read_only or directory.full
    lock_file = directory.path / LOCK
    environment = _open_retrying(
        lmdb,
        str(directory.path),
        # An item takes whole pages, or lies in one that is half full at least.
        map_size=max(_LEAST_MAP, 4 * max_bytes),
        readonly=unwritable,
        # Readers write to the lock file, too, and it cannot be made here.
        lock=not unwritable or (lock_file.exists() and os.access(lock_file, os.W_OK)),
        create=not unwritable,
        metasync=False,  # the last commit may be lost with the machine, not the rest
        max_readers=_READERS,
    )
    info = environment.info()
    pages = (info["last_pgno"] + 1) * environment.stat()["psize"]
    size = directory.store.stat().st_size
    if pages > size:  # LMDB would read beyond the end, and the system end the process
        environment.close()
        raise OSError(f"it was cut off, at {size:,} of {pages:,} bytes")
    if not unwritable:
        environment.reader_check()  # removes readers that were killed
    try:
        for _ in range(_TRIES):
            with environment.begin() as transaction:
                if _check_file(directory, check_index, transaction.id()):
                    break
    except BaseException:
        environment.close()
        raise
    return environment


def _open_retrying(lmdb: Any, path: str, **arguments: Any) -> Any:
    """Open an environment which another thread may be about to close.

    Its last reference is gone then, and it is no longer in `_open`.
    """
    deadline = time.monotonic() + _CLOSING_S
    while True:
        try:
            return lmdb.open(path, **arguments)
        except lmdb.Error as error:
            if _IS_OPEN not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.001)


def _check_file(directory: Directory, check: Callable[..., Any], *args: Any) -> Any:
    try:
        fd = os.open(directory.store, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        return check(fd, *args)
    finally:
        os.close(fd)
