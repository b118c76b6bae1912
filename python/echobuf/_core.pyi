"""The native core; private. Codes that calls return are named by the constants."""

from typing import Any

import numpy as np
import numpy.typing as npt

from echobuf.stats import Raw

__version__: str

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
MOST_CHANNELS: int
MOST_OPERATIONS: int
MOST_SPECIAL: int
MOST_BANDS: int

def interpreter_exits() -> None: ...
def cpu_features() -> list[str]: ...
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
def fixed_passes(window: int, num: int, den: int, n: int) -> list[tuple[int, int]]: ...
def fixed_total_draws(window: int, num: int, den: int, n: int) -> int: ...
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
    def __init__(
        self,
        *,
        leaves: list[tuple[np.dtype[Any], tuple[int, ...]]],
        ragged: bool,
        batch_size: int,
        window: int,
        factor: tuple[int, int] | None,
        max_factor: int,
        seed: int,
        epoch: int,
        drop_last: bool,
        prefetch: int,
        shared: bool,
        made: list[tuple[int, ChainPlan | None]],
    ) -> None: ...
    idle: int
    def needs(self) -> tuple[int, int, int, int, int]:
        """Slots, bytes a slot, batches held, bytes a batch."""

class _Bound:
    """What buffers have in common, wherever their windows are."""

    def put(
        self, arrays: list[Any], stacked: bool, timeout_s: float | None, /
    ) -> tuple[int, int] | None: ...
    def ready(self) -> int: ...
    def close(self) -> int: ...
    def fail(self) -> int: ...
    def reset(self, epoch: int, /) -> int: ...
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
        mean: int,
        mix: int,
        ops: list[tuple[str, int, dict[str, Any]]],
    ) -> None: ...

class ChainPlan:
    def __init__(self, stages: list[Stage]) -> None: ...
    @property
    def bytes(self) -> int: ...
    @property
    def stages(
        self,
    ) -> list[tuple[str, list[tuple[str | None, int, Any]], bool]]:
        """The plan as text; of operations type, number, settings; has a mean."""

class ExportedLeaf:
    """A leaf of a batch on the CPU; the memory of all goes back with the last."""

    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Buffer(_Bound):
    def __init__(
        self,
        leaves: list[tuple[np.dtype[Any], tuple[int, ...]]],
        made: list[tuple[np.dtype[Any], tuple[int, ...]]],
        options: BufferOptions,
    ) -> None: ...
    def next(self, timeout_s: float | None, /) -> list[npt.NDArray[Any]] | int: ...
    def exportable(self) -> bool:
        """Whether DLPack has types for all leaves."""
    def next_exported(self, timeout_s: float | None, /) -> list[ExportedLeaf] | int: ...
    def next_into(
        self, arrays: list[npt.NDArray[Any]], timeout_s: float | None, /
    ) -> int: ...

class CudaError(Exception):
    """The driver refused a call. Arguments: its code, or 0, and what happened."""

def load_driver(library: str, /) -> None:
    """Loads a driver, if it is not, and starts it."""

class Device:
    """A driver, which is loaded, and one of its devices."""

    def __init__(self, library: str, ordinal: int) -> None: ...
    def memory(self) -> tuple[int, int]:
        """Bytes of device memory: free, in all."""
    def is_capturing(self, stream: int, /) -> bool:
        """Whether what is done on the stream with this handle goes into a graph."""

TWICE: int
CAPTURING: int

class DeviceBuffer(_Bound):
    def __init__(
        self,
        leaves: list[tuple[np.dtype[Any], tuple[int, ...]]],
        made: list[tuple[np.dtype[Any], tuple[int, ...]]],
        options: BufferOptions,
        device: Device,
        kernels: dict[str, int],
        stages: list[tuple[int, int]],
    ) -> None: ...
    def next_at(
        self, addresses: list[int], stream: int, timeout_s: float | None, /
    ) -> int: ...
    def before_replay(self, stream: int, timeout_s: float | None, /) -> int: ...
    def error(self) -> str: ...
    @staticmethod
    def needs(options: BufferOptions, /) -> tuple[int, int, int, int, int]: ...
    @staticmethod
    def staging_bytes(options: BufferOptions, /) -> int: ...

def follow(fds: list[int], code: int, /) -> None: ...

class Crew:
    def __init__(self, buffer: Buffer, workers: int, ahead: int) -> None: ...
    def board(self) -> int: ...
    def slots(self) -> int: ...
    def term(self) -> int: ...
    def give(
        self, term: int, indices: npt.NDArray[np.int64], given: int
    ) -> tuple[int, int]: ...
    def given(self) -> list[int]: ...
    def settle(self, counts: list[int], timeout_s: float, /) -> bool: ...
    def revoke(self, counts: list[int], /) -> None: ...
    def abandon(self, term: int, /) -> None: ...
    def bury(self, lane: int, /) -> None: ...
    def is_wanted(self, lane: int, ticket: int, /) -> bool: ...
    def close(self) -> None: ...
    def outstanding(self, lane: int, /) -> int: ...

class DeviceCrew(Crew):
    def __init__(self, buffer: DeviceBuffer, workers: int, ahead: int) -> None: ...

class Worker:
    def __init__(
        self,
        board: int,
        lanes: int,
        lane: int,
        slots: int,
        leaves: list[tuple[np.dtype[Any], tuple[int, ...]]],
        capacity: int,
    ) -> None: ...
    def take(self, timeout_s: float, /) -> tuple[int, int]: ...
    def wait_revoked(self, timeout_s: float, /) -> int: ...
    def write(self, arrays: list[Any], /) -> int | None: ...
    def ticket(self) -> int: ...
    def done(self) -> None: ...
