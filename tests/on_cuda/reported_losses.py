"""Buffers whose losses are reported, and what they must serve."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import echobuf
from helpers import WAIT_S

SPEC = echobuf.Field((), np.float32)
KWARGS = {"batch_size": 4, "window": 16, "factor": 5, "seed": 3}
KWARGS |= {"with_info": True, "reuse": "loss", "thin": 0.6}
N = 16


def losses(index):
    return (np.asarray(index) * 7919 % 13).astype(np.float32)


def host(array):
    return array.get() if hasattr(array, "get") else np.array(array)


def put(buffer, n=N):
    buffer.put_batch(np.arange(n, dtype=np.float32), timeout=WAIT_S)
    buffer.close()


def served(buffer, report):
    """The index and the weights of all batches, where `report(info, index)` follows."""
    put(buffer)
    batches = []
    for _, info in buffer:
        index = host(info.index)
        batches.append((index.tolist(), host(info.weight).tolist()))
        report(info, index)
    return batches


def expected(lag=True, **more):
    """The same on the CPU, with losses that count as a device's do."""
    late = []
    with echobuf.EchoBuffer(SPEC, **KWARGS | more) as buffer:

        def report(info, index):
            late.append((info, losses(index)))
            if len(late) > lag:
                buffer.report(*late.pop(0))

        batches = served(buffer, report)
    assert len({weight for _, weights in batches for weight in weights}) == 2
    return batches


@pytest.fixture
def torch(cupy, monkeypatch):
    pytest.importorskip("torch")
    import fake_torch
    from echobuf.cuda import torch_arrays

    monkeypatch.setitem(sys.modules, "torch", fake_torch)
    monkeypatch.setattr(torch_arrays, "torch", fake_torch)
    yield fake_torch
    fake_torch.cuda.forget()


def torch_losses(cupy, torch, index, dtype):
    values = losses(index)
    if dtype == "bfloat16":
        values = (values.view(np.uint32) >> 16).astype(np.int16)
    else:
        values = values.astype(dtype)
    return torch.Tensor(cupy.asarray(values), getattr(torch, dtype))
