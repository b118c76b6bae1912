"""CuPy's part of the package, over the simulated driver: a plugin, see conftest.py."""

from __future__ import annotations

import contextlib
import gc
import sys
import tempfile
from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture
def cupy() -> Iterator[ModuleType]:
    """The stand-in for CuPy; what the driver finds wrong is an error of the test."""
    with fake_cupy_in_place() as module:
        yield module


@contextlib.contextmanager
def fake_cupy_in_place() -> Iterator[ModuleType]:
    """The stand-in in CuPy's place, and the simulated driver in CUDA's."""
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        tempfile.TemporaryDirectory() as kernels,
    ):
        yield from _in_place(monkeypatch, kernels)


def _in_place(monkeypatch: pytest.MonkeyPatch, kernels: str) -> Iterator[ModuleType]:
    import fake_cuda
    import fake_cupy
    from echobuf.cuda import cupy_device, device
    from echobuf.cuda.simulated_driver import library_path

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
    monkeypatch.setattr(cupy_device, "LIBRARY", str(library_path()))
    opened: dict[int, object] = {}
    monkeypatch.setattr(device, "_opened", opened)
    # In place of CuPy itself, where that is installed and was imported before.
    from echobuf.cuda import cupy_arrays

    monkeypatch.setattr(cupy_arrays, "cupy", fake_cupy)
    monkeypatch.setenv("CUPY_CACHE_DIR", kernels)
    fake_cupy.compiled.clear()
    fake_cuda.start()
    try:
        yield fake_cupy
    finally:
        opened.clear()
        gc.collect()
        reports = fake_cuda.stop()
    assert reports == []
