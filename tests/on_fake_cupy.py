"""CuPy's part of the package, over the simulated driver: a plugin, see conftest.py."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture
def cupy(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ModuleType]:
    """The stand-in for CuPy; what the driver finds wrong is an error of the test."""
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
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
    fake_cupy.compiled.clear()
    fake_cuda.start()
    try:
        yield fake_cupy
    finally:
        opened.clear()
        gc.collect()
        reports = fake_cuda.stop()
    assert reports == []
