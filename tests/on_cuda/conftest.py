"""The simulated driver for a whole test, with kernels of both kinds."""

from collections.abc import Iterator

import pytest

from echobuf.testing import Simulation, simulated_cuda


@pytest.fixture(params=[(1, "host"), (2, "ptx")], ids=lambda of: f"{of[1]}-{of[0]}")
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    with simulated_cuda(*request.param) as on:
        yield on
