"""Devices that the tests of this folder run on.

Those that take `place` run on the simulated driver, in every run, and on a real device
with `-m gpu`. Those that take `cuda` need the device. Where there is none, that alone
is why they are skipped: CuPy and torch are needed, and missed with an error.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from echobuf.testing import simulated_cuda
from places import Cuda, Place, Simulated

BENCH = Path(__file__).parents[2] / "bench" / "gpu"


def why_no_gpu() -> str | None:
    """As the benchmarks ask: not the package, which is what is tested."""
    spec = importlib.util.spec_from_file_location("has_gpu", BENCH / "has_gpu.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.why_no_gpu()


def _real() -> Cuda:
    reason = why_no_gpu()
    if reason is not None:
        pytest.skip(reason)
    return Cuda()


@pytest.fixture(params=["simulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "cuda":
        yield _real()
        return
    with simulated_cuda(seed=4) as simulation:
        yield Simulated(simulation)


@pytest.fixture
def cuda() -> Cuda:
    return _real()
