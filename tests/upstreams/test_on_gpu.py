"""Batches whose latents lie on a device, here the simulated one."""

import numpy as np
import pytest

from echobuf.testing import simulated_cuda
from upstream_checks import N, check_all, run


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_the_page(framework, monkeypatch):
    torch = pytest.importorskip("torch")
    import echobuf.torch

    ids = np.arange(N)
    batches = [
        (ids[i : i + 50, None].astype(np.float32), ids[i : i + 50])
        for i in range(0, N, 50)
    ]
    if framework == "numpy":
        monkeypatch.setattr(echobuf.torch, "EchoLoader", echobuf.EchoLoader)
    else:
        batches = [tuple(map(torch.from_numpy, batch)) for batch in batches]
    with simulated_cuda(1) as on:
        names = {"echobuf": echobuf, "count": N, "batches": batches}
        names["encode"] = lambda images: on.array(np.asarray(images))
        check_all(lambda: run("Items on a GPU", names)["loader"], "id")
