"""Where the tests of this folder run.

Those that take `place` run on the simulated driver, in every run, and on a real device
with `-m gpu`. Those that take `cuda` need the device. Where there is none, that alone
is why they are skipped: CuPy and torch are needed, and missed with an error.
"""

from collections.abc import Iterator

import pytest

from echobuf.testing import simulated_cuda
from places import Cuda, Place, Simulated, why_no_device


def _real() -> Cuda:
    reason = why_no_device()
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
