"""Bad input of `analyze`: errors of one line that says what to do."""

import threading
import time

import numpy as np
import pytest

import echobuf
from virtual_time import VirtualClock, measure, step_of

BATCH = np.zeros((4, 3))
RELEASED = threading.Event()


@pytest.fixture(autouse=True)
def released(no_leaked_threads):
    """End hanging upstreams with their test."""
    RELEASED.clear()
    yield
    RELEASED.set()


def hangs_after(count):
    yield from [BATCH] * count
    RELEASED.wait(60)


class Anew:
    """Calls a generator function for each pass."""

    def __init__(self, function, *args):
        self._function, self._args = function, args

    def __iter__(self):
        return self._function(*self._args)


class OncePerObject:
    def __init__(self):
        self._items = iter_of([BATCH] * 20)

    def __iter__(self):
        return self._items


class SecondEmpty:
    def __init__(self):
        self._items = [BATCH] * 20

    def __iter__(self):
        items, self._items = self._items, []
        return iter(items)


def iter_of(items):
    yield from items


def raises_after(count, error):
    yield from [BATCH] * count
    raise error


def raises_at_once():
    raise OSError("no disk")


class Unready:
    def __iter__(self):
        raise OSError("no disk")


class HangsTogether:
    def __iter__(self):
        for number in range(20):
            if number and threading.current_thread().name == "echobuf-feeder":
                RELEASED.wait(60)
            yield BATCH


UPSTREAMS = {
    "hangs together": (HangsTogether(), "no batch for 0.5 s.*`timeout`"),
    "nothing": ([], "yields nothing"),
    "nothing, once": (iter([]), "not been used"),
    "too few": ([BATCH] * 3, "3 items: too few"),
    "ends, once": (iter_of([BATCH] * 20), "80 examples: too soon"),
    "one item, once": (iter_of([BATCH]), "4 examples: too soon"),
    "raises": (Anew(raises_after, 5, OSError("disk gone")), "5 items.*disk gone"),
    "raises, once": (raises_after(5, OSError("disk gone")), "failed.*disk gone"),
    "exits": (Anew(raises_after, 5, SystemExit(3)), r"SystemExit\(3\)"),
    "cannot begin": (Unready(), "0 items.*no disk.*test_analyze_bad_input.py"),
    "hangs": (Anew(hangs_after, 0), "at all for 0.5 s.*`timeout`"),
    "hangs later": (Anew(hangs_after, 9), "after 9 items for 0.5 s"),
    "hangs, once": (hangs_after(0), "at all for 0.5 s"),
    "same iterator": (OncePerObject(), "OncePerObject.*begins anew"),
    "second is empty": (SecondEmpty(), "SecondEmpty.*begins anew"),
    "empty batch": ([np.zeros((0, 3))] * 20, "first batch of `upstream` is empty"),
}


@pytest.mark.parametrize("name", UPSTREAMS)
def test_upstreams(name):
    upstream, reason = UPSTREAMS[name]
    options = {"seconds": 0.2, "timeout": 0.5 if name.startswith("hangs") else 60}
    if name == "ends, once":  # before the time is used up, on a busy machine, too
        options |= {"seconds": 20, "interval": 10}
    with pytest.raises(echobuf.UpstreamError, match=f"(?s){reason}") as caught:
        measure(upstream, lambda _: time.sleep(1e-4), **options)
    assert "\n" not in str(caught.value)
    assert "`upstream`" in str(caught.value)


def test_the_error_of_upstream_is_the_cause():
    error = OSError("disk gone")
    with pytest.raises(echobuf.UpstreamError) as caught:
        measure(Anew(raises_after, 5, error), lambda _: None)
    assert caught.value.__cause__ is error


def raising(batch):
    raise ValueError("no such label")


async def coroutine(batch):
    return batch


def generator(batch):
    yield batch


STEPS = {
    "raises": (raising, "no such label.*test_analyze_bad_input.py:"),
    "exits": (lambda batch: exit(3), "SystemExit"),
    "at once": (lambda batch: None, "microseconds.*one step of training"),
    "coroutine": (coroutine, "coroutine.*plain function"),
    "generator": (generator, "generator.*plain function"),
    "makes a step": (lambda batch: raising, "returned a function"),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(name):
    step, reason = STEPS[name]
    with pytest.raises(echobuf.StepError, match=f"(?s){reason}") as caught:
        measure([BATCH] * 20, step, seconds=0.2)
    assert "\n" not in str(caught.value)


def test_a_step_that_raises_when_upstream_is_beside_it():
    clock, seen = VirtualClock(), []

    def step(batch):
        clock.pass_by(1e-3)
        seen.append(batch)
        if batch[0, 0] == 7:  # the resident batch is the first one
            raise ValueError("no such label")

    def batches():
        for batch in [BATCH] * 9 + [np.full((4, 3), 7.0)]:
            clock.pass_by(1e-3)
            yield batch

    with pytest.raises(echobuf.StepError, match="no such label"):
        measure(Anew(batches), step, seconds=0.2, clock=clock)
    assert len(seen) > 10


OPTIONS = {
    "upstream": {"upstream": 5},
    "upstream of names": {"upstream": {"a": BATCH}},
    "step": {"step": None},
    "batch_size": {"batch_size": 0},
    "batch_size, too large": {"batch_size": 1000, "batched": True},
    "batch_size, none": {"batched": False},
    "batched": {"batched": 1},
    "window": {"window": 3},
    "max_factor": {"max_factor": 0},
    "length": {"length": -1},
    "device": {"device": "gpu"},
    "seconds": {"seconds": 0},
    "seconds, NaN": {"seconds": float("nan")},
    "interval": {"interval": "narrow"},
    "timeout": {"timeout": -1},
    "synchronize": {"synchronize": 5},
}


@pytest.mark.parametrize("window", [10**12, 10**18])
def test_a_window_larger_than_any_memory_is_refused_before_the_step_runs(window):
    refused = (echobuf.CapacityError, echobuf.OptionError)
    with pytest.raises(refused, match=f"`window`.* is {window}"):
        measure([BATCH] * 20, raising, window=window, seconds=0.2)


class SaysNoLength:
    def __iter__(self):
        while True:
            time.sleep(1e-4)
            yield BATCH

    def __len__(self):
        raise NotImplementedError


def test_an_upstream_that_cannot_say_its_length():
    got = measure(SaysNoLength(), lambda _: time.sleep(1e-4), seconds=0.2)
    assert got.length is None


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name):
    arguments = {
        "upstream": [BATCH] * 20,
        "step": lambda _: time.sleep(1e-4),
        "seconds": 0.2,
        **OPTIONS[name],
    }
    named = name.partition(" ")[0].strip(",")
    with pytest.raises(echobuf.OptionError, match=f"`{named}`"):
        measure(**arguments)


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        (["a"] * 20, "str"),
        ([np.array(["a", "b"])] * 20, "dtype"),
        ([3.0] * 20, "scalar"),
        ([{}] * 20, "no leaves"),
    ],
)
def test_items_that_cannot_be_stored(items, reason):
    with pytest.raises(echobuf.SpecError, match=reason):
        measure(items, lambda _: time.sleep(1e-4), seconds=0.2)


def test_items_of_another_shape_later():
    clock = VirtualClock()

    def batches():
        for batch in [BATCH] * 9 + [np.zeros((4, 5))]:
            clock.pass_by(1e-2)
            yield batch

    with pytest.raises(echobuf.UpstreamError, match="does not fit the first one"):
        measure(Anew(batches), step_of(clock, 1e-2), clock=clock)


class Elsewhere:
    """An array of a framework that nothing is known of."""

    def __dlpack_device__(self):
        return (2, 0)


def test_no_way_to_wait_for_the_device():
    with pytest.raises(echobuf.DeviceError, match="`synchronize=`") as caught:
        measure([BATCH] * 20, lambda _: [Elsewhere()], seconds=0.2)
    assert "inside `step`" in str(caught.value)  # which the command line can, too


def test_no_way_to_wait_for_a_device_of_torch():
    torch = pytest.importorskip("torch")
    kind = torch._C._get_privateuse1_backend_name()  # noqa: SLF001 - torch's

    class Loss(torch.Tensor):
        device = torch.device(kind, 0)

    loss = torch.zeros(1).as_subclass(Loss)
    with pytest.raises(echobuf.DeviceError, match=f"a {kind} device with torch"):
        measure([BATCH] * 20, lambda _: {"loss": loss}, seconds=0.2)
    step = {"synchronize": lambda: time.sleep(1e-3), "seconds": 0.2}
    assert measure([BATCH] * 20, lambda _: {"loss": loss}, **step).step_s.mean > 0


def test_with_a_way_to_wait_it_is_measured():
    got = measure(
        [BATCH] * 20,
        lambda _: Elsewhere(),
        synchronize=lambda: time.sleep(1e-3),
        seconds=0.2,
    )
    assert got.step_s.mean > 0


def test_waiting_for_the_device_fails():
    def lost():
        raise RuntimeError("device lost")

    with pytest.raises(echobuf.StepError, match="device lost"):
        measure([BATCH] * 20, lambda _: None, synchronize=lost, seconds=0.2)
