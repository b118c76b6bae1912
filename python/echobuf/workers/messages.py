"""Messages between a trainer and its worker processes.

`multiprocessing` writes the arguments of a new process into a pipe, and waits for ever
if the process dies before it has read them all. A `Payload` is sent as a descriptor, so
that the arguments fit the pipe.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import pickle
import traceback
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import TYPE_CHECKING, Any

import numpy as np

from echobuf.errors import ItemError, describe, escape
from echobuf.field import Field

if TYPE_CHECKING:
    from echobuf import _core
    from echobuf.loader.items import Adapter
    from echobuf.loader_buffer import LoaderBuffer
    from echobuf.options import Options

READY = "ready"
FAILED = "failed"
ITEM = "item"
GO_ON = "go on"


@dataclass(frozen=True)
class RaggedConfig:
    """The part of a worker's configuration that is for ragged leaves."""

    options: Options  # the buffer's, without `transform`
    # Bytes: of the worker's area, usual and all, and of an example's rows
    sizes: tuple[int, int, int]
    share: int  # the most bytes of a segment's ragged leaves; 0 for no limit

    @classmethod
    def of(cls, buffer: LoaderBuffer, core: _core.WorkerPool) -> RaggedConfig | None:
        """Return that of a buffer and its pool; None without ragged leaves."""
        sizes = core.sizes()
        if sizes is None:
            return None
        share: int = buffer.core.share_bytes
        # Workers draw nothing, and a Lambda need not be one that can be pickled.
        return cls(buffer.options.replaced(transform=None), sizes, share)


@dataclass(frozen=True)
class RecordConfig:
    """The records that workers write, which are known with the first example."""

    example: Any  # the first example, of which the others have the structure
    # The leaves of an example. They are sent as well since NumPy pickles an array in
    # the byte order of the machine.
    fields: tuple[Field, ...]
    capacity: int  # number of slots in the ring
    ragged: RaggedConfig | None = None  # set where examples have ragged leaves
    carries: bool = False  # True where examples have leaves that are no arrays
    receiver: str = ""  # the process that reads these


@dataclass(frozen=True)
class WorkerConfig:
    """The configuration of one worker, which is pickled."""

    number: int  # of the worker, from 0
    count: int  # of workers
    dataset: Any  # read by the worker
    adapter: Adapter  # reads the items of the dataset
    seed: int  # of the loader
    init: Callable[[int], Any] | None  # called with `number` first; or None
    start: int = 0  # number of processes that the loader had started before this one
    record: RecordConfig | None = None  # None for a worker that makes the first example
    # Set where the dataset is told the number of an epoch
    epoch: SharedEpoch | None = None


class WorkerTraceback(Exception):  # noqa: N818 - a traceback, not an error
    """The traceback of an error that was raised in a worker process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


def pack_error(error: BaseException) -> tuple[bytes, str, str]:
    """Return an error to be sent: pickled, its message, and its traceback as text."""
    said = _message_of(error)
    # The traceback of a spec mismatch shows only the package's own frames.
    is_said = isinstance(error, ItemError) and error.__cause__ is None
    try:
        text = "" if is_said else escape("".join(traceback.format_exception(error)))
    except BaseException:  # users' classes may raise in `str` and elsewhere
        text = f"{_frames(error)}{said}\n"
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)  # some errors can be pickled, but not unpickled
    except BaseException:
        packed = b""
    return packed, said, text


def _message_of(error: BaseException) -> str:
    try:
        return escape("".join(traceback.format_exception_only(error)).strip())
    except BaseException:
        return describe(error)


def _frames(error: BaseException) -> str:
    return escape("".join(traceback.format_tb(error.__traceback__)))


def unpack_error(packed: tuple[bytes, str, str]) -> BaseException:
    """Return an error that was packed; its cause has the traceback as text."""
    data, said, text = packed
    error: object = None
    if data:
        try:
            error = pickle.loads(data)
        except BaseException:
            error = None  # cannot be unpickled in this process
    if not isinstance(error, BaseException):
        error = RuntimeError(said)
    cause = WorkerTraceback(text) if text else None
    try:
        error.__cause__ = cause
    except BaseException:  # a class whose attributes cannot be set
        error = RuntimeError(said)
        error.__cause__ = cause
    return error


def pack_item(item: Any) -> bytes:
    """Return an item, pickled; its arrays keep their byte order."""
    file = io.BytesIO()
    _ItemPickler(file).dump(item)
    return file.getvalue()


_NUMPYS: Any = np.ndarray.__reduce__


class _ItemPickler(pickle.Pickler):
    """Not that of pipes, which shares the memory of tensors."""

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is np.ndarray and not value.dtype.isnative:
            return _array_of, (value.tobytes(), value.dtype, value.shape)
        if kind is not np.ndarray and getattr(kind, "__reduce__", None) is _NUMPYS:
            names = getattr(value, "__dict__", {})
            told = {name: each for name, each in names.items() if _is_sent(each)}
            return _derived, (kind, np.asarray(value), told)
        return NotImplemented


def _is_sent(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def _derived(kind: type[Any], array: Any, attributes: dict[str, Any]) -> Any:
    """Return an array of a derived class; NumPy's own way leaves attributes out."""
    derived = array.view(kind)
    derived.__dict__.update(attributes)
    return derived


def _array_of(data: bytes, dtype: Any, shape: tuple[int, ...]) -> Any:
    return np.frombuffer(data, dtype).reshape(shape)


class Descriptor:
    """A file descriptor that is duplicated into the child process."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> Any:
        return _identity, (DupFd(self._number),)


class SharedEpoch:
    """The number of an epoch in memory that this process shares with its workers."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._number = memoryview(mmap.mmap(descriptor, 8)).cast("q")
        weakref.finalize(self, os.close, descriptor).atexit = False

    @classmethod
    def create(cls) -> SharedEpoch:
        """Return new memory, in which no epoch is set."""
        descriptor = os.memfd_create("echobuf")
        os.ftruncate(descriptor, 8)
        epoch = cls(descriptor)
        epoch.set(-1)
        return epoch

    def set(self, number: int) -> None:
        """Set the number."""
        self._number[0] = number

    def get(self) -> int:
        """Return the number; -1 if none was set."""
        return self._number[0]

    def __reduce__(self) -> Any:
        return _received_epoch, (DupFd(self._descriptor),)


def _received_epoch(descriptor: Any) -> SharedEpoch:
    return SharedEpoch(descriptor.detach())


class Payload:
    """A value that is pickled into memory without a name, and sent as its descriptor.

    Close it once the process is started.
    """

    def __init__(self, value: Any) -> None:
        self._value = value
        self._files: list[Any] = []

    def __reduce__(self) -> Any:
        # Here, and not before: locks can be pickled only while a process is started.
        file = open(os.memfd_create("echobuf"), "wb")  # noqa: SIM115 - see close()
        self._files.append(file)
        ForkingPickler(file).dump(self._value)
        file.flush()
        return ReceivedPayload, (DupFd(file.fileno()),)

    def close(self) -> None:
        """Release this process's descriptors of the memory."""
        for file in self._files:
            # A write that failed was raised by __reduce__ already.
            with contextlib.suppress(OSError):
                file.close()


class ReceivedPayload:
    """A payload in the process that received it."""

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor

    def open(self) -> Any:
        """Return the value; errors of unpickling pass through."""
        with open(self._descriptor.detach(), "rb") as file:
            file.seek(0)
            return pickle.load(file)


def _identity(descriptor: Any) -> Any:
    return descriptor
