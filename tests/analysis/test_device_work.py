"""The time of an item on a device is the time until the device has made it."""

import sys
import time
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import echobuf
from echobuf import SpecError
from echobuf.analysis import timing
from echobuf.analysis.device_work import ItemsInTurn, waits_for
from echobuf.analysis.loaders import SourceArguments
from echobuf.analysis.source import Source
from echobuf.analysis.timers import UpstreamTimer
from echobuf.analysis.timing import Timings
from echobuf.testing import simulated_cuda
from virtual_time import VirtualClock

SIZE = 4


class VirtualDevice:
    """A device that works on one thing after the other, and its frameworks.

    Args:
        clock: whose seconds its work takes.
    """

    def __init__(self, clock):
        self._clock = clock
        self._idle_at = 0.0
        device = self

        class Event:
            def record(self, stream=None):
                self._at = device._idle_at

            def synchronize(self):
                clock.pass_by(max(0.0, self._at - clock()))

        class Array:
            """Of CuPy and torch, as far as they are asked."""

            def __init__(self, number=0):
                self.device = SimpleNamespace(id=number, index=number)
                self.shape = (SIZE, 2)
                self.is_cuda = True

        class JaxArray(Array):
            def __init__(self):
                super().__init__()
                self._event = Event()
                self._event.record()

            def __dlpack_device__(self):
                return (2, 0)

            def block_until_ready(self):
                self._event.synchronize()

        self.cuda = SimpleNamespace(
            Event=Event,
            Device=lambda number: mock.MagicMock(),
            get_current_stream=lambda number: None,
            current_stream=lambda number: None,
        )
        self.Array, self.JaxArray = Array, JaxArray

    def work(self, seconds):
        """Begin work, which is done when what was begun before is, and `seconds` on."""
        self._idle_at = max(self._idle_at, self._clock()) + seconds


class Framework:
    """A module in a framework's place, whose arrays are those of a virtual device."""

    def __init__(self, name, device):
        kinds = {"cupy": "ndarray", "torch": "Tensor", "jax": "Array"}
        self.make = device.JaxArray if name == "jax" else device.Array
        self.module = SimpleNamespace(cuda=device.cuda, **{kinds[name]: self.make})


@pytest.fixture
def clock():
    clock = VirtualClock()
    with mock.patch.object(timing, "now", clock):
        yield clock


@pytest.fixture
def device(clock):
    return VirtualDevice(clock)


@pytest.fixture(params=["cupy", "torch", "jax"])
def make(request, device, monkeypatch):
    """What makes an array of each framework."""
    for name in ("cupy", "torch", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    framework = Framework(request.param, device)
    monkeypatch.setitem(sys.modules, request.param, framework.module)
    return framework.make


def mean_s(upstream, count):
    """Seconds that an item takes, as the phase of upstream alone has them."""
    source = Source(SourceArguments(upstream, True))
    timings = Timings()
    done = UpstreamTimer(source, 60).read(timings, lambda done: done.items >= count)
    assert done.items == count
    return timings.estimate().mean * SIZE


@pytest.mark.parametrize(
    ("host_s", "device_s", "seconds"), [(1, 3, 3), (3, 1, 3), (2, 0, 2), (0, 5, 5)]
)
def test_the_slower_of_host_and_device_counts(
    clock, device, make, host_s, device_s, seconds
):
    class Upstream:
        def __iter__(self):
            while True:
                clock.pass_by(host_s)
                device.work(device_s)
                yield {"x": make()}

    assert mean_s(Upstream(), 20) == pytest.approx(seconds, rel=0.06)


def test_nothing_is_left_for_what_is_timed_next(clock, device, make):
    def upstream():
        while True:
            device.work(3)
            yield make()

    items = ItemsInTurn(upstream())
    for _ in range(4):
        items.next(None)
    items.finish()
    assert clock() == 12


def test_a_host_upstream_is_only_looked_at_once(clock, monkeypatch):
    looked = []
    monkeypatch.setattr(
        "echobuf.analysis.device_work.waits_for", lambda item: looked.append(item) or []
    )
    items = ItemsInTurn(iter([1, 2, 3]))
    assert [items.next(None) for _ in range(4)] == [1, 2, 3, None]
    assert looked == [1]


def test_each_device_is_waited_for_once(device, monkeypatch):
    framework = Framework("cupy", device)
    monkeypatch.setitem(sys.modules, "cupy", framework.module)
    item = {"a": framework.make(0), "b": framework.make(1), "c": framework.make(1)}
    assert len(waits_for(item)) == 2


# ---- an analysis, on a simulated device


@pytest.fixture
def on():
    with simulated_cuda(1) as simulation:
        yield simulation


def analyze(upstream, **arguments):
    arguments = {"seconds": 0.5, "device": "cuda", **arguments}
    return echobuf.analyze(upstream, lambda _: time.sleep(1e-3), **arguments)


class OnDevice:
    def __init__(self, on):
        self._on = on

    def __iter__(self):
        for number in range(5000):
            time.sleep(1e-3)
            yield {"x": self._on.array(np.full((8, 2), number, np.float32))}


@pytest.mark.parametrize("one_shot", [False, True])
def test_an_upstream_on_a_device_is_analyzed(on, one_shot):
    upstream = OnDevice(on)
    report = analyze(iter(upstream) if one_shot else upstream)
    assert report.measurements.batch_size == 8
    assert "Items of upstream lie on a device" in str(report)


def test_the_device_of_the_loader_is_asked_for_at_once(on):
    with pytest.raises(SpecError, match=r"`batch\['x'\]` is on cuda:0, but the buffer"):
        analyze(OnDevice(on), device="cpu")


def test_a_step_waits_for_what_the_device_has_not_made(on, monkeypatch):
    """Where the batch has been handed out, and the device works on it."""
    monkeypatch.setattr(
        "echobuf.analysis.timers.waits_for", lambda batch: [lambda: time.sleep(0.004)]
    )
    measured = analyze(OnDevice(on)).measurements
    assert measured.wait_s.mean >= 0.004
