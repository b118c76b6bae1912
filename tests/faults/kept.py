"""Half-way epochs that are kept until Python has taken every module apart.

`python kept.py KIND`; prints how many batches were drawn. See test_fault_exits.py.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

import echobuf
from echobuf import serve
from echobuf.testing import simulated_cuda

KWARGS: dict[str, Any] = {"window": 8, "batch_size": 4, "factor": 2}


class Numbers:
    """A dataset whose example i is i."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> np.int64:
        return np.int64(range(1000)[index])

    def __iter__(self) -> Iterator[np.int64]:
        return map(np.int64, range(1000))


def thread() -> list[Any]:
    return [echobuf.EchoLoader(Numbers(), **KWARGS)]


def ahead() -> list[Any]:
    return [echobuf.EchoLoader(Numbers(), prefetch=2, overlap_epochs=True, **KWARGS)]


def workers() -> list[Any]:
    return [
        echobuf.EchoLoader(Numbers(), num_workers=1, sampler=range(1000), **KWARGS),
    ]


def server() -> list[Any]:
    name = f"kept-{sys.argv[2]}"
    kept = ExitStack()
    kept.enter_context(serve.Server(Numbers(), name, window=64))
    return [echobuf.EchoLoader(serve.attach(name), **KWARGS), kept]


def simulated() -> list[Any]:
    kept = ExitStack()
    kept.enter_context(simulated_cuda())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))  # it outlives them all
    return [echobuf.EchoLoader(Numbers(), device="cuda", **KWARGS)]


if __name__ == "__main__":
    held = globals()[sys.argv[1]]()
    held.append(iter(held[0]))
    held.append([next(held[-1]) for _ in range(3)])
    # What is imported first is emptied last, of the modules that are still there.
    os.held = held  # type: ignore[attr-defined]
    sys.emptied = list(sys.modules.values())  # type: ignore[attr-defined]
    print(len(held[-1]))
