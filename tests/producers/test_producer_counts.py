"""What puts of device leaves cost: launches, and calls of the driver."""

import numpy as np
import pytest
from device_examples import counted, drawn, on_device

import echobuf
from echobuf import Field
from echobuf.testing import simulated_cuda
from graphs import context
from helpers import WAIT_S, Worker

MOST_CALLS = 4
N = 24


@pytest.fixture
def on():
    """A simulated driver whose context is current, as CuPy and torch leave it."""
    with simulated_cuda(2) as simulation:
        simulation.stream()
        with context():
            yield simulation


def records(n, fields):
    """Examples of several fields, stacked."""
    ids = np.arange(n * 6, dtype=np.int32).reshape(n, 6)
    return {f"{i:02}": ids + i for i in range(fields)}


def make(fields, **kwargs):
    spec = {name: Field((6,), np.int32) for name in records(1, fields)}
    options = {"batch_size": 4, "window": N, "factor": 1, "device": "cuda"}
    return echobuf.EchoBuffer(spec, **{**options, **kwargs})


def examples(simulation, n, fields):
    whole = records(n, fields)
    return [
        on_device(simulation, {name: leaf[i] for name, leaf in whole.items()})
        for i in range(n)
    ]


def is_usual(calls):
    """Checks that a put has launched once; returns whether it was four calls at most.

    The upload thread looks, meanwhile, for copies that are done, and now and then a
    put makes an event.
    """
    assert calls["cuLaunchKernel"] == 1
    assert calls["cuEventRecord"] == 1
    looks = calls.get("cuEventQuery", 0) + calls.get("cuEventSynchronize", 0)
    return sum(calls.values()) - looks <= MOST_CALLS


@pytest.mark.parametrize("fields", [1, 5, 32])
def test_a_put_is_a_launch_and_few_calls(on, fields):
    with make(fields) as buffer:
        usual = 0
        for one in examples(on, N, fields):
            with counted() as calls:
                buffer.put(one)
            usual += is_usual(calls)
        assert usual > N / 2
        buffer.close()
        drawn(buffer)


def test_a_put_of_a_batch_is_a_launch_and_few_calls(on):
    with make(5) as buffer:
        usual = 0
        for _ in range(N // 2):
            batch = on_device(on, records(2, 5))
            with counted() as calls:
                buffer.put_batch(batch)
            usual += is_usual(calls)
        assert usual > N / 4


def test_a_put_behind_a_draw_is_a_launch_and_few_calls(on):
    with make(5) as buffer:
        for one in examples(on, N, 5):
            buffer.put(one)
        usual = 0
        for i, one in enumerate(examples(on, N, 5)):
            if i % 4 == 0:
                buffer.next_batch(timeout=WAIT_S)
            with counted() as calls:
                buffer.put(one)
            usual += is_usual(calls)
        assert usual > N / 2


def test_more_fields_than_a_launch_takes(on):
    with make(70) as buffer:
        one = examples(on, 1, 70)[0]
        with counted() as calls:
            buffer.put(one)
        assert calls["cuLaunchKernel"] <= 3


def test_nothing_crosses_the_bus(on):
    """In all of an epoch: nothing is brought to the host, nor to the device again."""
    with make(3, factor=2) as buffer:
        ready = examples(on, 2 * N, 3)
        rest = on_device(on, records(N, 3))

        def put():
            for one in ready:
                buffer.put(one, timeout=WAIT_S)
            buffer.put_batch(rest, timeout=WAIT_S)
            buffer.close()

        with counted() as calls:
            worker = Worker(put)
            assert len(drawn(buffer)) == 2 * 3 * N / 4
            worker.result()
        assert "cuMemcpyHtoDAsync_v2" not in calls
        assert "cuMemcpyDtoHAsync_v2" not in calls


def test_the_hosts_leaves_of_an_example_go_with_the_same_launch(on):
    with make(4) as buffer:
        whole = records(8, 4)
        mixed = {
            name: on.array(leaf) if name > "01" else leaf
            for name, leaf in whole.items()
        }
        one = {name: leaf[0] for name, leaf in mixed.items()}
        buffer.put(one)
        with counted() as calls:
            buffer.put(one)
        assert calls["cuLaunchKernel"] == 1
        assert "cuMemcpyDtoHAsync_v2" not in calls
        with counted() as calls:
            buffer.put_batch(mixed)
        assert calls["cuLaunchKernel"] == 1
        assert "cuMemcpyDtoHAsync_v2" not in calls


def test_host_puts_launch_nothing(on):
    with make(3) as buffer:
        with counted() as calls:
            buffer.put_batch(records(8, 3))
        assert "cuLaunchKernel" not in calls


def test_no_records_are_no_launch(on):
    with make(3) as buffer:
        none = on_device(on, records(0, 3))
        with counted() as calls:
            buffer.put_batch(none)
        assert "cuLaunchKernel" not in calls
        assert buffer.stats().fresh == 0


@pytest.mark.parametrize("n", [1, 7])
def test_records_without_bytes(on, n):
    """They are counted and drawn like others."""
    spec = {"none": Field((0, 3), np.float32)}
    with echobuf.EchoBuffer(
        spec, batch_size=1, window=2, factor=1, device="cuda"
    ) as buffer:
        leaf = on.array(np.zeros((min(n, 2), 0, 3), np.float32))
        buffer.put_batch({"none": leaf})
        buffer.close()
        assert len(drawn(buffer)) == min(n, 2)
