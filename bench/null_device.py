"""A device of a driver that does nothing: for the time of the host alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.cuda.arrays import DeviceArrays, Shapes, places_of
from echobuf.cuda.codegen import DRAW_KERNELS
from echobuf.cuda.device import LoadedStages
from echobuf.spec import Spec

HERE = Path(__file__).parent


_BLOCK = 1 << 26  # bytes: room for any batch of the benchmarks


class NullArrays(DeviceArrays):
    """Arrays in one block; see `echobuf.cuda.arrays.Arrays`.

    Batches of a fixed size have the same arrays again and again. Those of ragged ones,
    which have no `lead`, are new views for each batch, as CuPy's are.
    """

    def __init__(
        self, spec: Spec, lead: tuple[int, ...], stream: int, block: np.ndarray
    ) -> None:
        super().__init__(0, spec, lead)
        self._stream = stream
        self._block = block
        self._base = int(block.ctypes.data)
        self._kept = self._views(self._shapes) if lead else None

    def _views(self, shapes: Shapes) -> tuple[list[Any], list[int]]:
        places, _ = places_of(shapes, self._dtypes)
        leaves: list[Any] = [
            np.ndarray(shape, dtype, self._block, at) for shape, dtype, at in places
        ]
        return leaves, [self._base + at for _, _, at in places]

    def current(self, leaves: Sequence[Any] = ()) -> int:
        return self._stream

    def stream(self, stream: Any) -> int:
        return self._stream

    def empty(
        self, stream: int, shapes: Shapes | None = None
    ) -> tuple[list[Any], list[int]]:
        if self._kept is not None:
            return self._kept
        return self._views(self._shapes if shapes is None else shapes)

    def copy_rows(
        self, targets: list[Any], sources: list[Any], counts: list[int], stream: int
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
        self.block = np.empty(_BLOCK, np.uint8)

    def add(self, buffer: _core.DeviceBuffer) -> None:
        """Keep nothing for it."""

    def kernels(self) -> dict[str, int]:
        return dict.fromkeys(DRAW_KERNELS, 1)

    def stages(self, source: Any) -> LoadedStages:
        return LoadedStages([])

    def arrays(self, spec: Spec, lead: tuple[int, ...]) -> NullArrays:
        return NullArrays(spec, lead, self._stream, self.block)


def built(folder: Path) -> Path:
    """Compile the driver."""
    library = folder / "libnull_driver.so"
    include = HERE.parent / "cpp" / "include"
    source = HERE / "cpp" / "null_driver.cpp"
    command = ["c++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    return library
