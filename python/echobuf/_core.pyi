"""The native core; private. Codes that calls return are named by the constants."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from echobuf.stats import Raw

__version__: str

Versions = int | npt.NDArray[np.int64]  # of all examples, or of each

TIMEOUT: int
CLOSED: int
FAILED: int
FINISHED: int
SHORT: int
NO_MEMORY: int
BROKEN: int
REENTRANT: int
FORKED: int
MISMATCH: int
LEFT: int
VERSIONS: int
NO_FIELD: int
MOST_CHANNELS: int
MOST_OPERATIONS: int
MOST_GATES: int
MOST_ORDERED: int
MOST_SPECIAL: int
MOST_BANDS: int
MOST_LEVELS: int
CPU_VARIABLE: str

def interpreter_exits() -> None: ...
def this_thread_runs_upstream() -> None: ...
def cpu_features(in_use: bool = True) -> list[str]: ...
def streaming_copy(to: npt.NDArray[Any], from_: npt.NDArray[Any], /) -> None:
    """Copies bytes past the caches."""

def permutation(
    n: int,
    seed: npt.ArrayLike,
    epoch: npt.ArrayLike,
    passes: npt.ArrayLike,
    first: int,
    count: int,
    *,
    rounds: int = 0,
) -> npt.NDArray[np.uint32]: ...
def epoch_phase(num: int, den: int, seed: int, epoch: int) -> int: ...
def fixed_passes(
    window: int, num: int, den: int, n: int, phase: int = 0
) -> list[tuple[int, int]]: ...
def fixed_total_draws(
    window: int, num: int, den: int, n: int, phase: int = 0
) -> int: ...
def fixed_segment_start(window: int, num: int, den: int, segment: int) -> int: ...
def fixed_capacity(window: int, num: int, den: int) -> int: ...

class AutoSchedule:
    def __init__(self, window: int, batch_size: int, max_factor: int) -> None: ...
    @property
    def capacity(self) -> int: ...
    @property
    def segments(self) -> int: ...
    @property
    def lo(self) -> int: ...
    @property
    def hi(self) -> int: ...
    @property
    def limit(self) -> int: ...
    @property
    def uses(self) -> list[int]: ...
    def start(self, segment: int, /) -> int: ...
    def advance(self, committed: int, *, held_back: bool, ended: bool) -> str: ...

class BufferOptions:
    """Options by the names in options.hpp, and what leaves are; None for the default.

    Args:
        leaves: of what is put: dtypes and shapes.
        max_lengths: of these, the most rows; 0 for any number.
        pad_values: of these, one item.
        output: of each leaf of batches, the number of the leaf that it is made of, or
            `NO_FIELD`, and its plan.
        rows: of each, its plan where it is made of rows.
        row_pads: of each, one item.
        borrowed: slots of another process.
    """

    def __init__(self, **options: Any) -> None: ...
    idle: int
    def needs(self) -> tuple[int, int, int, int, int]:
        """Slots, bytes a slot, batches held, bytes a batch."""

class Structure:
    """Takes trees apart, and puts them together."""

    def __init__(
        self,
        nodes: tuple[Any, ...] | None,
        flatten: Callable[[Any], list[Any]],
        unflatten: Callable[[list[Any]], Any],
        carried: list[bool],
        /,
    ) -> None: ...
    def flatten(self, tree: Any, /) -> list[Any] | None:
        """Arrays of the tree; None if it has another structure."""
    def take_apart(self, tree: Any, /) -> tuple[list[Any], list[Any]] | None:
        """The same, and what is carried."""
    def unflatten(self, arrays: list[Any], /) -> Any: ...
    def join(self, arrays: list[Any], carried: list[Any], /) -> Any: ...

class CarriedObjects:
    """Leaves that are no arrays, by the number of their example.

    Args:
        kinds: types that are no arrays, beside those that are known to be none.
        leaves: of an example.
        next: the number of the example that is put next.
        whole: examples are whole batches, and their objects lists.
    """

    def __init__(
        self, kinds: set[type], leaves: int, next: int, whole: bool
    ) -> None: ...
    @property
    def next(self) -> int: ...
    def __len__(self) -> int: ...
    def add(self, leaves: list[Any], n: int, stacked: bool, /) -> None:
        """Add the leaves of `n` examples, of a whole batch of `n`, or of one."""
    def take(self, numbers: Any, /) -> list[list[Any]]:
        """Return a list for each leaf."""
    def forget(self, oldest: int, /) -> None: ...
    def clear(self) -> None: ...

class _Puts:
    """A target of examples that are put."""

    def use(self, structure: Structure, /) -> None: ...
    def take_foreign(self, names: list[str | None], /) -> None: ...
    def put(
        self,
        arrays: list[Any],
        stacked: bool,
        timeout_s: float | None,
        version: Versions | None = None,
    ) -> tuple[int, int] | None: ...
    def put_tree(
        self,
        tree: Any,
        stacked: bool,
        timeout_s: float | None,
        term: int | None = None,
        version: Versions | None = None,
        /,
    ) -> tuple[int, int] | None: ...
    def put_all(
        self,
        stacked: bool,
        term: int,
        items: Iterator[Any],
        most: int,
        carried: weakref.ref[CarriedObjects] | None = None,
    ) -> tuple[int, bool, tuple[int, int] | None, Any]:
        """Items put; whether that was all; why not, and the one that was not put."""

class _Bound(_Puts):
    """A buffer, wherever its window is."""

    def ready(self) -> bool | int: ...
    def close(self) -> int: ...
    def fail(self) -> int: ...
    def term(self) -> int: ...
    def abandon(self, term: int, /) -> int: ...
    def oldest_needed(self) -> int: ...
    def reset(self, epoch: int, skipped: int = 0) -> int: ...
    def draining(self, /) -> int: ...
    def open_ahead(self, epoch: int, /) -> int: ...
    def go_ahead(self, /) -> int: ...
    def checkpoint(self) -> dict[str, Any] | int: ...
    def restore(self, state: dict[str, Any], /) -> int: ...
    def stats(self) -> Raw | int: ...
    def release(self) -> None: ...
    def gone(self) -> bool: ...

class Stage:
    def __init__(
        self,
        *,
        source: tuple[Any, ...],
        target: tuple[Any, ...],
        raw: bool,
        core: int,
        whole: int,
        before: int,
        after: int,
        fill: int,
        statistic: int,
        mix: int,
        frames: int,
        ops: list[tuple[str, int, dict[str, Any]]],
        from_buffer: int,
        to_buffer: int,
        doubled: bool,
        gates: list[tuple[int, int, int, int, float, float]],
    ) -> None: ...

class ChainPlan:
    def __init__(self, stages: list[Stage]) -> None: ...
    @property
    def bytes(self) -> int: ...
    @property
    def stages(
        self,
    ) -> list[tuple[str, list[tuple[str | None, int, Any]], bool, bool]]:
        """The plan as text; operations: type, number, settings; statistic, gates."""
    @property
    def mixes(self) -> bool:
        """True if examples are mixed with partners."""

class RowsPlan:
    """A plan that makes a leaf of a ragged one."""

    def __init__(
        self,
        *,
        take: str,
        row_bytes: int,
        bytes: int,
        length: int = 0,
        operation: int = 0,
        mask: bool = False,
        pieces: list[tuple[int, ChainPlan]],
        row_elements: int = 0,
    ) -> None: ...
    @property
    def mask(self) -> bool: ...
    @property
    def computes(self) -> bool: ...
    @property
    def stages(
        self,
    ) -> list[tuple[str, list[tuple[str | None, int, Any]], bool, bool]]:
        """Those of a device, as in `ChainPlan`: of the window, or of a piece."""

class ExportedLeaf:
    """A leaf of a batch on the CPU; the memory of all goes back with the last."""

    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Buffer(_Bound):
    """A buffer on the CPU. Leaves of examples with rows are made by `makers`."""

    def __init__(
        self,
        leaves: list[tuple[np.dtype[Any], tuple[int | None, ...]]],
        output: list[tuple[np.dtype[Any], tuple[int | None, ...]]],
        options: BufferOptions,
        makers: list[Callable[..., Any] | None] = ...,
    ) -> None: ...
    @property
    def share_bytes(self) -> int:
        """The most bytes of a segment's ragged leaves, or an example's; 0: any."""
    def next(self, timeout_s: float | None, /) -> list[Any] | int: ...
    def exportable(self) -> bool:
        """Return True if DLPack has types for all leaves."""
    def next_exported(self, timeout_s: float | None, /) -> list[ExportedLeaf] | int: ...
    def next_into(
        self, arrays: list[npt.NDArray[Any]], timeout_s: float | None, /
    ) -> int: ...
    def next_rows(
        self,
        memory: list[tuple[int, int, int]],
        ids: tuple[int, int, int],
        room: int,
        timeout_s: float | None,
        /,
    ) -> tuple[int, int, list[int]]: ...

class CudaError(Exception):
    """The driver refused a call. Arguments: its code, or 0, and what happened."""

def load_driver(library: str, /) -> None:
    """Loads a driver, if it is not, and starts it."""

def read_dlpack(
    capsule: Any, /
) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, str | None, int, int]:
    """Return address, shape, strides in bytes, dtype's name, device's type and number.

    Of the tensor in a capsule, which stays its owner. The name is None where no
    framework has the dtype.

    Raises:
        ValueError: it is no capsule of DLPack 0 or 1, or was taken over.
    """

class Device:
    """A driver, which is loaded, and one of its devices."""

    def __init__(self, library: str, ordinal: int) -> None: ...
    def memory(self) -> tuple[int, int]:
        """Bytes of device memory: free, in all."""
    def exchange_capture_mode(self, mode: int, /) -> int:
        """Set the calling thread's CUstreamCaptureMode; return the one before."""
    def is_capturing(self, stream: int, /) -> bool:
        """Return True if work on the stream with this handle goes into a graph."""

TWICE: int
CAPTURING: int
RESIZE: int

class DeviceBuffer(_Bound):
    """A buffer whose window is on a device."""

    def __init__(
        self,
        leaves: list[tuple[np.dtype[Any], tuple[int | None, ...]]],
        output: list[tuple[np.dtype[Any], tuple[int | None, ...]]],
        options: BufferOptions,
        device: Device,
        kernels: dict[str, int],
        stages: list[tuple[int, int]],
    ) -> None: ...
    def put_on_device(
        self,
        arrays: list[Any],
        placed: list[Any],
        stacked: bool,
        timeout_s: float | None,
        version: Versions | None,
        stream: int,
        others: list[int],
        done: int,
    ) -> tuple[tuple[int, int] | None, int]: ...
    def arrived(self) -> int: ...
    @property
    def share_bytes(self) -> int:
        """The most bytes of a segment's ragged leaves, or an example's; 0: any."""
    def next_at(
        self,
        addresses: list[int],
        stream: int,
        timeout_s: float | None,
        records: list[int] | None = None,
    ) -> int: ...
    def next_rows(
        self,
        memory: list[tuple[int, int, int]],
        ids: tuple[int, int, int],
        count: int,
        room: int,
        stream: int,
        timeout_s: float | None,
        records: list[int] | None = None,
    ) -> tuple[int, int, list[int], bool]: ...
    def before_replay(
        self, rows: list[int], stream: int, timeout_s: float | None, /
    ) -> tuple[int, list[int]]: ...
    def notice_loss(self, /) -> None: ...
    def error(self) -> str: ...
    @staticmethod
    def needs(options: BufferOptions, /) -> tuple[int, int, int, int, int]: ...
    @staticmethod
    def staging_bytes(options: BufferOptions, /) -> int: ...
    @staticmethod
    def host_bytes(options: BufferOptions, /) -> int:
        """Of pinned memory, and of the ring."""

def exit_when_readable(fds: list[int], code: int, /) -> None: ...

class WorkerPool:
    def __init__(self, buffer: _Puts, workers: int, ahead: int, keep: int) -> None: ...
    def control_block_fd(self) -> int: ...
    def memory_fd(self) -> int:
        """Return a descriptor of the memory that workers write examples into."""
    def sizes(self) -> tuple[int, int, int] | None:
        """Return bytes: of a worker's area, usual and all, and of an example's rows.

        None for examples of one size, which go into slots.
        """
    def term(self) -> int: ...
    def begin(self, term: int, ordered: int | None, /) -> None:
        """Begin a term whose first `ordered` items enter in order; None for all."""
    def submit(
        self, term: int, indices: npt.NDArray[np.int64], submitted: int
    ) -> tuple[int, int]: ...
    def submitted(self) -> int: ...
    def wait_committed(self, count: int, timeout_s: float, /) -> bool: ...
    def revoke(self, term: int, count: int, /) -> None: ...
    def abandon(self, term: int, /) -> None: ...
    def reap(self, worker: int, /) -> None: ...
    def is_wanted(self, item: int, /) -> bool: ...
    def close(self) -> None: ...
    def making(self, worker: int, /) -> int | None:
        """Return the index of the example that a worker makes."""
    def entered(
        self, term: int, first: int, /
    ) -> tuple[list[int], list[int], int] | None:
        """Return items by the number of their submission; None of a term in order.

        Those that entered, from entry `first` on; those that did not, before one that
        did; and the first one behind all that did. None before `begin`, too.
        """

class Worker:
    def __init__(
        self,
        *,
        control_block: int,
        memory: int,
        workers: int,
        number: int,
        leaves: list[tuple[np.dtype[Any], tuple[int | None, ...]]],
        capacity: int = 0,
        sizes: tuple[int, int, int] | None = None,
        max_lengths: list[int] = ...,
        row_length: int = 0,
        cut: bool = False,
    ) -> None: ...
    def take(self, timeout_s: float, /) -> tuple[int, int]: ...
    def wait_revoked(self, timeout_s: float, /) -> int: ...
    def write(self, arrays: list[Any], /) -> int | None: ...
    def item(self) -> int: ...
    def done(self) -> None: ...

READ_TIMEOUT: int
READ_CLOSED: int
READ_DROPPED: int
READ_OVER: int
READ_FAILED: int
READ_MISFIT: int
MISFIT_SHARE: int
MISFIT_LENGTH: int

class SharedRing(_Puts):
    def term(self) -> int: ...
    def __init__(
        self,
        leaves: list[tuple[np.dtype[Any], tuple[int | None, ...]]],
        slots: int,
        memory: int,
        lease_s: float,
        window: int = 1,
        payload_bytes: int = 0,
    ) -> None: ...
    @staticmethod
    def adopt(
        leaves: list[tuple[np.dtype[Any], tuple[int | None, ...]]],
        header: int,
        memory: int,
        lease_s: float,
        window: int = 1,
        payload_bytes: int = 0,
    ) -> SharedRing: ...
    @staticmethod
    def bytes_of(
        leaves: list[tuple[np.dtype[Any], tuple[int | None, ...]]],
        slots: int,
        window: int = 1,
        payload_bytes: int = 0,
    ) -> int:
        """Return the bytes of a ring, but for its header."""
    @property
    def share_bytes(self) -> int:
        """The most bytes of an example's ragged leaves; 0 without such."""
    def close(self) -> int: ...
    def release(self) -> None: ...
    def header_fd(self) -> int: ...
    def memory_fd(self) -> int: ...
    def slots(self) -> int: ...
    def session(self) -> bytes: ...
    def resume_offset(self) -> int | None:
        """Return the examples published of an epoch that the last server began."""
    def epochs(self) -> tuple[int, int]:
        """Return the numbers of epochs that were begun and that have ended."""
    def published(self) -> int: ...
    def begin_epoch(self, jobs: int, timeout_s: float, /) -> bool: ...
    def end_epoch(self) -> bool:
        """Return False if upstream failed or the server is shut down."""
    def finish(self, reason: str, failed: bool, /) -> None: ...
    def take_seat(self) -> tuple[int, int] | None: ...
    def leave_seat(self, seat: int, holder: int, /) -> None: ...
    def holds(self, seat: int, holder: int, /) -> bool: ...
    def jobs(self) -> list[tuple[int, bool, int, int, int, float]]:
        """Return of each: seat, waiting, epoch, taken, held, seconds of silence."""

class BorrowedSlots: ...

class ClientSlot:
    def __init__(self, header: int, seat: int, holder: int, lease_s: float) -> None: ...
    def is_held(self) -> bool: ...
    def slots(self) -> int: ...
    def session(self) -> bytes: ...
    def reason(self) -> str: ...
    def skip_to(self, epoch: int, /) -> None: ...
    def detach(self) -> None: ...
    def wait_epoch(
        self, epoch: int | None, timeout_s: float, /
    ) -> tuple[int, int, int]:
        """Return a code (0: begun), the epoch, and the position of its start."""
    def borrow(self, memory: int, base: int, writable: bool, /) -> BorrowedSlots: ...

class RingReader:
    def __init__(self, buffer: _Puts, slot: ClientSlot, /) -> None: ...
    def gap(self, base: int, /) -> int: ...
    def begin(self, base: int, /) -> None: ...
    def term(self) -> int: ...
    def position(self) -> int: ...
    def read(self, term: int, epoch: int, timeout_s: float, /) -> int: ...
    def misfit(self) -> tuple[int, int]:
        """Return why the buffer cannot draw an example, and its bytes or rows."""
    def settle(self) -> None:
        """Commit what was read with that example, after the epoch has failed."""
