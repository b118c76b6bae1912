"""Worker processes and servers refuse items that lie on a device."""

import numpy as np
import pytest

import echobuf
import fake_dlpack
from echobuf import SpecError
from echobuf.serve import Server
from echobuf.testing import simulated_cuda

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


@pytest.fixture
def on():
    with simulated_cuda(1) as simulation:
        yield simulation


class OnDevice(fake_dlpack.Array):
    """An array that can be sent to another process, and read nowhere."""

    def __init__(self):
        super().__init__(0x1000, (3,))

    def __reduce__(self):
        return OnDevice, ()


class Made:
    """A dataset of such arrays, from some index on."""

    def __init__(self, first):
        self._first = first

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return OnDevice() if index >= self._first else np.zeros(3, np.float32)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("first", [0, 5])
def test_worker_processes_refuse_them(on, device, first):
    loader = echobuf.EchoLoader(
        Made(first), batch_size=2, window=4, factor=1, device=device, num_workers=1
    )
    with loader, pytest.raises(SpecError, match="worker processes and servers take"):
        list(loader)


def test_a_server_refuses_them(on):
    upstream = [on.array(np.zeros(3, np.float32))]
    with pytest.raises(SpecError, match="worker processes and servers take arrays on"):
        Server(upstream, name="device-upstream", window=8)
