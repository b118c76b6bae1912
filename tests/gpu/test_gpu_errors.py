"""Refusals of a real device, and their messages."""

import os
import re
import warnings

import numpy as np
import pytest

import echobuf
from gpu_records import SPEC, ids_of, stack
from test_gpu_streams import KWARGS, make

pytestmark = pytest.mark.gpu
MB = 1 << 20


@pytest.fixture
def torch(cuda):
    import torch

    assert torch.cuda.is_available(), "this torch has no CUDA"
    return torch


def test_a_device_that_does_not_exist(cuda):
    count = cuda.cupy.cuda.runtime.getDeviceCount()
    with pytest.raises(echobuf.DeviceError, match=f"cuda:{count}.*nvidia-smi"):
        echobuf.EchoBuffer(SPEC, device=f"cuda:{count}", **KWARGS)


def test_a_window_that_does_not_fit_says_how_many_bytes(cuda):
    before = cuda.free()
    window = before // MB + 1000
    with pytest.raises(echobuf.CapacityError) as caught:
        echobuf.EchoBuffer(
            echobuf.Field((MB,), np.uint8),
            batch_size=8,
            window=window,
            device="cuda",
        )
    found = re.search(
        r"needs ([\d,]+) bytes, but cuda:\d+ has ([\d,]+) free", str(caught.value)
    )
    assert found, caught.value
    needed, free = (int(number.replace(",", "")) for number in found.groups())
    assert needed > free > 0
    assert f"`window`, which is {window}" in str(caught.value)
    assert before - cuda.free() <= MB


def test_max_bytes_holds_on_the_device(cuda):
    before = cuda.free()
    with pytest.raises(echobuf.CapacityError, match="`max_bytes` allows 1,000"):
        make("cuda", max_bytes=1000)
    assert before - cuda.free() <= MB


class Elsewhere:
    """An array that says that it is on a device which is not the buffer's."""

    def __init__(self, array):
        self.__cuda_array_interface__ = array.__cuda_array_interface__
        self.dtype, self.shape = array.dtype, array.shape
        self.device = type("Device", (), {"id": array.device.id + 1})()


def outs(cuda, torch):
    """Places that are not on the buffer's device, and what the error names."""
    return {
        "a ndarray in host memory": np.empty(4),
        "on cpu": torch.empty(4, dtype=torch.float64),
        "on cuda:1": Elsewhere(cuda.cupy.empty(4)),
        "dtype torch.float32": torch.empty(4, device="cuda"),
        "requires a gradient": torch.empty(
            4, device="cuda", dtype=torch.float64, requires_grad=True
        ),
    }


def test_out_that_does_not_fit_is_named_and_nothing_is_lost(cuda, torch):
    with echobuf.EchoBuffer(
        echobuf.Field((), np.float64), batch_size=4, window=4, factor=1, device="cuda"
    ) as buffer:
        buffer.put_batch(np.arange(4.0))
        for text, out in outs(cuda, torch).items():
            with pytest.raises(echobuf.SpecError, match=re.escape(text)):
                buffer.next_batch(out=out)
        with pytest.raises(echobuf.SpecError):
            buffer.next_batch(out=cuda.cupy.empty(5))
        assert sorted(buffer.next_batch().get().tolist()) == [0, 1, 2, 3]


def test_examples_must_be_put_from_the_host(cuda, torch):
    with make("cuda") as buffer:
        whole = stack(range(4))
        for there in (torch.from_numpy(whole["id"]).cuda(), cuda.cupy.arange(4)):
            with pytest.raises(echobuf.SpecError, match="id"):
                buffer.put_batch({**whole, "id": there})
        assert buffer.stats().fresh == 0


def test_a_stream_must_be_one(cuda):
    with make("cuda") as buffer:
        buffer.put_batch(stack(range(96)))
        for wrong in ("0", 1.5, True, -1, object()):
            with pytest.raises(echobuf.OptionError, match="`stream`"):
                buffer.next_batch(stream=wrong)
        assert len(ids_of(cuda.host(buffer.next_batch()))) == KWARGS["batch_size"]


def test_a_forked_child_cannot_use_it_and_the_parent_can(cuda):
    with make("cuda") as buffer:
        buffer.put_batch(stack(range(96)))
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 and later warn of every fork beside a thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _tell(writing, buffer)
        os.close(writing)
        with os.fdopen(reading) as answers:
            assert answers.read().split() == 4 * ["ForkError"] + ["DeviceError"]
        assert os.waitpid(child, 0)[1] == 0
        assert len(ids_of(cuda.host(buffer.next_batch()))) == KWARGS["batch_size"]


def _tell(writing, buffer):
    """In the child: how each use of the buffer, and a buffer of its own, end."""
    uses = (
        buffer.next_batch,
        buffer.stats,
        lambda: buffer.put_batch(stack([1])),
        lambda: buffer.next_batch(stream=0),
        lambda: make("cuda"),
    )
    try:
        os.write(writing, " ".join(map(_end_of, uses)).encode())
    finally:
        os._exit(0)  # whatever happens: this is not the process that runs the tests


def _end_of(use):
    try:
        use()
    except Exception as error:
        return type(error).__name__
    return "nothing"
