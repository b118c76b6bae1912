"""LMDB environments: one a directory and process, whoever asks for it."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from echobuf.cache.directory import LOCK, Directory
from echobuf.cache.pages import check_index, check_metas
from echobuf.errors import OptionError
from echobuf.limits import explain

_READERS = 1024
_TRIES = 100  # to see the same state as a transaction, while others commit
_CLOSING_S = 5.0  # at most, until another thread has closed what it dropped
_IS_OPEN = "already open in this process"  # says LMDB's binding
_LEAST_MAP = 1 << 36  # of addresses; memory and disk are taken as they are used


class _Opened:
    """What this process has open, by device and inode of its file.

    Attributes:
        lock: held while LMDB is called, and while the process forks: a child can close
            only what no thread was using.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.at: weakref.WeakValueDictionary[tuple[int, int], Any] = (
            weakref.WeakValueDictionary()
        )

    def hold(self) -> None:
        """Before the process forks."""
        self.lock.acquire()

    def give_back(self) -> None:
        """In the parent, when it has."""
        self.lock.release()

    def forget(self) -> None:
        """In a forked child, which may not use what its parent has opened."""
        opened = list(self.at.values())
        self.__init__()  # type: ignore[misc]
        for environment in opened:
            environment.close()


_opened = _Opened()
os.register_at_fork(
    before=_opened.hold,
    after_in_parent=_opened.give_back,
    after_in_child=_opened.forget,
)


def lock() -> Any:
    """What a thread of this process holds while it calls LMDB."""
    return _opened.lock


def import_lmdb() -> Any:
    """The package `lmdb`, which is wanted with a directory only.

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
    """The environment of a directory in this process.

    Raises:
        OptionError: the store cannot be opened.
        CapacityError: there are too few descriptors.
    """
    lmdb = import_lmdb()
    with _opened.lock:
        environment = _opened.at.get(_inode(directory))
        if environment is None:
            try:
                environment = _make(lmdb, directory, max_bytes)
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
            _opened.at[_inode(directory)] = environment
        return environment


def _inode(directory: Directory) -> tuple[int, int]:
    """Of the store's file; no other has it as long as it is open, deleted or not."""
    if not directory.store.exists():
        return -1, -1
    status = directory.store.stat()
    return status.st_dev, status.st_ino


def _make(lmdb: Any, directory: Directory, max_bytes: int) -> Any:
    _check_file(directory, check_metas)
    unwritable = directory.read_only or directory.full
    lock_file = directory.path / LOCK
    environment = _open_again(
        lmdb,
        str(directory.path),
        # A record takes whole pages, or lies in one that is half full at least.
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
        environment.reader_check()  # forgets readers that were killed
    try:
        for _ in range(_TRIES):
            with environment.begin() as transaction:
                if _check_file(directory, check_index, transaction.id()):
                    break
    except BaseException:
        environment.close()
        raise
    return environment


def _open_again(lmdb: Any, path: str, **arguments: Any) -> Any:
    """Open an environment which another thread may be about to close.

    Its last reference is gone then, and so it is not in `_opened` any more.
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
