"""A device of a driver that does nothing: for the time of the host alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.cuda.codegen import DRAW_KERNELS
from echobuf.cuda.device import LoadedStages
from echobuf.spec import Spec

HERE = Path(__file__).parent


class NullArrays:
    """The arrays of one batch, again and again; see `echobuf.cuda.arrays.Arrays`."""

    def __init__(self, spec: Spec, lead: tuple[int, ...], stream: int) -> None:
        self._stream = stream
        self._leaves: list[Any] = [
            np.empty(lead + f.shape, f.dtype) for f in spec.fields
        ]
        self._addresses = [int(leaf.ctypes.data) for leaf in self._leaves]

    def stream(self, stream: Any) -> int:
        return self._stream

    def empty(self, stream: int) -> tuple[list[Any], list[int]]:
        return self._leaves, self._addresses

    def finish(
        self, leaves: list[Any], drawn: list[Any], count: int, stream: int
    ) -> None:
        """Copy nothing."""


class NullDevice:
    """A device of the driver that does nothing; see `echobuf.cuda.device.Device`."""

    gone = None
    ordinal = 0
    name = "cuda:0"

    def __init__(self, library: Path, stream: int) -> None:
        self.pid = os.getpid()
        self.core = _core.Device(str(library), 0)
        self._stream = stream

    def add(self, buffer: _core.DeviceBuffer) -> None:
        """Keep nothing for it."""

    def kernels(self) -> dict[str, int]:
        return dict.fromkeys(DRAW_KERNELS, 1)

    def stages(self, source: Any) -> LoadedStages:
        return LoadedStages([])

    def arrays(self, spec: Spec, lead: tuple[int, ...]) -> NullArrays:
        return NullArrays(spec, lead, self._stream)


def built(folder: Path) -> Path:
    """Compile the driver."""
    library = folder / "libnull_driver.so"
    include = HERE.parent / "cpp" / "include"
    source = HERE / "cpp" / "null_driver.cpp"
    command = ["c++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    return library
