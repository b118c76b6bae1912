"""Losses on a device that a buffer on the CPU takes, and JAX's: they count late."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest

import echobuf
from echobuf._engine.late_losses import later
from reported_losses import KWARGS, SPEC, expected, losses, served, torch, torch_losses

__all__ = ["torch"]  # a fixture


def test_a_buffer_on_the_cpu_takes_losses_of_cupy_late(cupy):
    with echobuf.EchoBuffer(SPEC, **KWARGS) as buffer:

        def report(info, index):
            buffer.report(info, cupy.asarray(losses(index)))

        assert served(buffer, report) == expected()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_buffer_on_the_cpu_takes_losses_of_torch_late(cupy, torch, dtype):
    with echobuf.EchoBuffer(SPEC, **KWARGS) as buffer:

        def report(info, index):
            buffer.report(info, torch_losses(cupy, torch, index, dtype))

        assert served(buffer, report) == expected()


def test_garbage_waits_for_its_event_before_that_goes(cupy, monkeypatch):
    # Made before what owns it: so a collection finalises it first.
    events = [cupy.cuda.Event(block=True, disable_timing=True)]
    monkeypatch.setattr(cupy.cuda, "Event", lambda **_: events.pop())
    late = later(cupy.asarray(np.arange(4)), cupy.asarray(np.zeros(4, np.float32)))
    cycle = [late]
    cycle.append(cycle)
    del late, cycle
    gc.collect()


class JaxArray:
    """A stand-in for a `jax.Array` on a device."""

    def __init__(self, values):
        self._values = values
        self.copied = self.read = 0

    def devices(self):
        return [SimpleNamespace(platform="gpu")]

    def copy_to_host_async(self):
        self.copied += 1

    def __array__(self, dtype=None, copy=None):
        assert self.copied == 1
        self.read += 1
        return self._values


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_losses_of_jax_are_read_late(cupy, device):
    reported = []
    with echobuf.EchoBuffer(SPEC, device=device, **KWARGS) as buffer:

        def report(info, index):
            assert not reported or reported[-1].read == 0
            reported.append(JaxArray(losses(index)))
            buffer.report(info, reported[-1])

        assert served(buffer, report) == expected()
    assert all(loss.read == 1 for loss in reported[:-1])
