"""The form in which the contract's tests run on a real device, over the stand-in."""

import gc
import sys

import numpy as np
import pytest
import torch

import echobuf
import echobuf.torch
import on_real_device
from equal_arrays import assert_equal


@pytest.fixture
def device():
    with on_real_device.stand_in():
        yield


def drawn(device):
    spec = {"x": echobuf.Field((3,), np.float32), "y": echobuf.Field((None,), np.int16)}
    with echobuf.EchoBuffer(
        spec, batch_size=4, window=8, factor=2, payload_bytes=160, device=device
    ) as buffer:
        for number in range(8):
            buffer.put(
                {"x": np.full(3, number, "f4"), "y": np.arange(number, dtype="i2")}
            )
        buffer.close()
        return list(buffer)


@pytest.mark.usefixtures("device")
def test_batches_are_arrays_of_numpy_as_on_the_cpu():
    for here, there in zip(drawn("cpu"), drawn("cuda"), strict=True):
        assert type(there["x"]) is type(there["y"].values) is np.ndarray
        assert_equal(there["x"], here["x"])
        assert_equal(there["y"].values, here["y"].values)
        assert_equal(there["y"].offsets, here["y"].offsets)


@pytest.mark.usefixtures("device")
def test_out_is_the_callers_array_in_host_memory():
    spec = echobuf.Field((5,), np.int32)
    with echobuf.EchoBuffer(
        spec, batch_size=2, window=2, factor=1, device="cuda"
    ) as buffer:
        buffer.put_batch(np.arange(10, dtype=np.int32).reshape(2, 5))
        out = np.zeros((2, 5), np.int32)
        buffer.next_batch(out)
        assert sorted(out.ravel().tolist()) == list(range(10))


@pytest.mark.usefixtures("device")
def test_loaders_of_torch_hand_out_tensors_on_the_cpu():
    data = [torch.full((2,), float(number)) for number in range(4)]
    with echobuf.torch.EchoLoader(
        data, batch_size=2, factor=1, device="cuda"
    ) as loader:
        seen = torch.cat(list(loader))
    assert seen.device.type == "cpu"
    assert sorted(seen[:, 0].tolist()) == [0, 1, 2, 3]


def test_batches_that_outlive_the_device_are_a_report_and_no_error_later(monkeypatch):
    errors = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    kept = []
    with (
        pytest.raises(AssertionError, match="leak: pinned memory"),
        on_real_device.stand_in(),
    ):
        kept += drawn("cuda")
    kept.clear()
    gc.collect()
    assert errors == []
