"""A fork of a job leaves the job's seat at the server alone."""

from __future__ import annotations

import atexit
import os

import numpy as np
import pytest

import echobuf
from echobuf import serve

N = 3000


def upstream():
    return [np.full(4, i) for i in range(N)]


@pytest.mark.parametrize("child", ["drops", "exits"])
def test_every_example_is_still_served(child):
    with serve.Server(upstream(), "forks", window=64, epochs=1):
        loader = echobuf.EchoLoader(
            serve.attach("forks"), batch_size=4, window=64, factor=2
        )
        epoch = iter(loader)
        served = [next(epoch) for _ in range(20)]
        process = os.fork()
        if not process:
            if child == "drops":
                del epoch, loader
            else:
                atexit._run_exitfuncs()  # noqa: SLF001 - Python's
            os._exit(0)
        assert os.waitpid(process, 0)[1] == 0
        served.extend(epoch)
        rows = np.concatenate(served)
    assert (rows == rows[:, :1]).all(), "torn"
    assert np.bincount(rows[:, 0], minlength=N).tolist() == [2] * N
