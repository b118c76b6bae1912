"""Time of the host for a put of records that lie on a device whose driver does nothing.

1 and 256 records of 136 bytes in one leaf, and in four, put as tensors of torch, as
arrays that look like CuPy's, and as objects with `__cuda_array_interface__`. Each call
of the driver returns at once, and is counted by its name; a window that is full makes
room by draws outside the time. Tensors are torch's own, without memory; `record_stream`
and torch's current stream, which a build of torch without CUDA lacks, do nothing here,
and take 1 to 2 us on a GPU. The producer has a core of its own. It needs Linux, a C++
compiler and torch, and no GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import echobuf
from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from echobuf.cuda.device import set_opener
from null_device import NullDevice, built

HERE = Path(__file__).parent
SPECS = {
    1: {"row": echobuf.Field((34,), np.float32)},
    4: {
        **{f"row{i}": echobuf.Field((11,), np.float32) for i in range(3)},
        "label": echobuf.Field((), np.int32),
    },
}
COUNTS = (1, 256)
BATCH, WINDOW = 1024, 8192
# Between rounds the threads that look for copies that are done come to rest.
PAUSE_S, COUNTED = 0.002, 4
PUTS, ROUNDS = 32, 101


# ---- leaves that are said to lie on the device: nobody reads them


class WithInterface:
    """An array of a library that nobody knows, such as a simulator's."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (1 << 20, False),
            "shape": shape,
            "strides": None,
            "typestr": dtype.str,
            "stream": 1,
        }


class LikeCupys:
    """What is read of an array of CuPy."""

    __slots__ = ("data", "device", "dtype", "shape", "strides")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        self.strides = np.empty(shape, dtype).strides
        self.data = SimpleNamespace(ptr=1 << 20)
        self.device = SimpleNamespace(id=0)


def tensor(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a tensor that says that it is on a GPU."""
    import torch

    class Made(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, *arguments: Any) -> Any:
            raise AssertionError("it has no memory to compute with")

    make = torch.Tensor._make_wrapper_subclass  # noqa: SLF001 - there is no other
    made = make(Made, shape, dtype=getattr(torch, dtype.name), device="cuda:0")
    made.__class__ = torch.Tensor
    made.record_stream = lambda stream: None
    return made


def cupy_of_the_default_stream() -> Any:
    """Return a stand-in for the module cupy."""
    default = SimpleNamespace(ptr=0)
    cuda = SimpleNamespace(get_current_stream=lambda ordinal: default)
    return SimpleNamespace(ndarray=LikeCupys, cuda=cuda)


KINDS: dict[str, Callable[[tuple[int, ...], np.dtype[Any]], Any]] = {
    "torch": tensor,
    "like CuPy's": LikeCupys,
    "__cuda_array_interface__": WithInterface,
}


# ---- puts


class Puts:
    """Puts of one case into a buffer that is full: `PUTS` at a time."""

    def __init__(self, library: Path, kind: str, leaves: int, count: int) -> None:
        spec = SPECS[leaves]
        lead = (count,) if count > 1 else ()
        self.example = {
            name: KINDS[kind](lead + field.shape, field.dtype)
            for name, field in spec.items()
        }
        set_opener(lambda ordinal: NullDevice(library, 0))
        try:
            self.buffer = echobuf.EchoBuffer(
                spec, batch_size=BATCH, window=WINDOW, factor=1, device="cuda"
            )
        finally:
            set_opener(None)
        self._put = self.buffer.put_batch if count > 1 else self.buffer.put
        for _ in range(2 * WINDOW // count // PUTS):
            self.run()  # from then on slots are used again
            self.drain()

    def run(self) -> float:
        """Return the seconds of a put."""
        put, example = self._put, self.example
        start = time.perf_counter()
        for _ in range(PUTS):
            put(example)
        return (time.perf_counter() - start) / PUTS

    def drain(self) -> None:
        """Draw what is ready."""
        while self.buffer.ready():
            self.buffer.next_batch(timeout=60)


def apart() -> None:
    """Give this thread a core that no other thread of the process runs on.

    Each put wakes the thread that passes positions on, which on a shared core would run
    at once, and in the time of the put.
    """
    mine, *others = sorted(os.sched_getaffinity(0))
    for task in os.listdir("/proc/self/task"):
        is_mine = int(task) == threading.get_native_id()
        os.sched_setaffinity(int(task), {mine} if is_mine or not others else others)


def named(driver: Any, puts: Puts) -> dict[str, float]:
    """Return the calls of the driver in a put, by name."""
    counts: Counter[str] = Counter()
    for _ in range(COUNTED):
        driver.null_driver_name_calls(1)
        puts.run()
        driver.null_driver_name_calls(0)
        counts.update(driver.null_driver_names().decode().split())
        puts.drain()
        time.sleep(PAUSE_S)
    return {name: times / PUTS / COUNTED for name, times in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    taken_in = environment()
    import torch

    torch.cuda.current_stream = lambda device=None: None  # type: ignore[assignment]
    sys.modules["cupy"] = cupy_of_the_default_stream()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = built(Path(folder))
        driver = ctypes.CDLL(str(library))
        driver.null_driver_names.restype = ctypes.c_char_p
        cases = {
            (kind, leaves, count): Puts(library, kind, leaves, count)
            for kind in KINDS
            for leaves in SPECS
            for count in COUNTS
        }
        apart()
        seconds: dict[Any, list[float]] = {case: [] for case in cases}
        for _ in range(options.rounds):
            for case, puts in cases.items():
                for kept in ([], seconds[case]):  # once for the caches
                    kept.append(puts.run())
                    puts.drain()
            time.sleep(PAUSE_S)
        for (kind, leaves, count), taken in seconds.items():
            rows.append(
                {
                    "leaves_are": kind,
                    "leaves": leaves,
                    "records": count,
                    "median_s": statistics.median(taken),
                    "min_s": min(taken),
                    "max_s": max(taken),
                    "driver_calls": named(driver, cases[kind, leaves, count]),
                }
            )
        for puts in cases.values():
            puts.buffer.__exit__(None, None, None)
    for row in rows:
        calls = ", ".join(f"{n} {t:.2f}" for n, t in row["driver_calls"].items())
        print(
            f"{row['records']:>3} records, leaves: {row['leaves']}, {row['leaves_are']}"
            f": {row['median_s'] * 1e6:.2f} us a put ({row['min_s'] * 1e6:.2f} to "
            f"{row['max_s'] * 1e6:.2f}); {calls}"
        )
    write_figures(
        "put_device_host_time",
        options.out,
        {"rounds": options.rounds, "puts": PUTS, "results": rows},
        taken_in=taken_in,
    )


if __name__ == "__main__":
    main()
