"""What a buffer refuses of device leaves; a refused put leaves it as it was."""

import ctypes

import numpy as np
import pytest
from device_examples import Capsule, Interface, drawn, on_device, reports_of, rows

import echobuf
from echobuf import Field
from echobuf.testing import simulated_cuda
from graphs import Graph, context
from helpers import SPEC, WAIT_S, Worker, example, make, stack

PROTOCOLS = [lambda a: a, Capsule, Interface]


@pytest.fixture
def on():
    with simulated_cuda(5) as simulation:
        yield simulation


@pytest.fixture
def buffer(on):
    """A buffer with four examples, which are all there is in it afterwards."""
    with make(device="cuda", window=8, factor=1) as buffer:
        buffer.put_batch(stack(range(4)))
        yield buffer
        assert buffer.stats().fresh == 4
        buffer.put_batch(stack(range(4, 8)), timeout=WAIT_S)
        buffer.close()
        got = drawn(buffer)
    with make(window=8, factor=1) as host:
        host.put_batch(stack(range(8)))
        host.close()
        assert got == drawn(host)


def both_puts(buffer, tree, error, says, **kwargs):
    with pytest.raises(error, match=says):
        buffer.put_batch(tree, **kwargs)
    with pytest.raises(error, match=says):
        buffer.put(rows(tree, 0), **kwargs)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_buffer_on_the_cpu(on, protocol):
    leaf = protocol(on.array(np.arange(4)))
    one = protocol(on.array(np.int64(1)))
    with echobuf.EchoBuffer(
        Field((), np.int64), batch_size=2, window=4, factor=1
    ) as buffer:
        for put, given in ((buffer.put_batch, leaf), (buffer.put, one)):
            with pytest.raises(echobuf.SpecError, match=r"(?i)cuda(.|\n)*cpu"):
                put(given)
        assert buffer.stats().fresh == 0
        buffer.put_batch(np.arange(4))
        buffer.close()
        assert sorted(np.concatenate(list(buffer)).tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("protocol", PROTOCOLS[:2])
def test_an_array_on_another_device(on, buffer, protocol):
    tree = stack(range(2))
    tree["id"] = protocol(on.array(tree["id"], device=1))
    with pytest.raises(echobuf.SpecError, match="id") as caught:
        buffer.put_batch(tree)
    assert "cuda:1" in str(caught.value)
    assert "cuda:0" in str(caught.value) or "'cuda'" in str(caught.value)
    one = rows(stack(range(1)), 0)
    one["id"] = protocol(on.array(one["id"], device=1))
    with pytest.raises(echobuf.SpecError, match="cuda:1"):
        buffer.put(one)


def test_leaves_on_two_devices(on, buffer):
    tree = on_device(on, stack(range(2)))
    tree["body"] = on_device(on, stack(range(2))["body"], device=1)
    both_puts(buffer, tree, echobuf.SpecError, "cuda:1")


def test_an_array_whose_interface_hides_its_device():
    """Where nothing tells the device, the driver says that the kernel reads another."""

    def body(simulation):
        buffer = make(device="cuda", window=8, factor=1)
        tree = stack(range(2))
        tree["id"] = Interface(simulation.array(tree["id"], device=1))
        try:
            buffer.put_batch(tree)
        except echobuf.EchobufError as error:
            return str(error)
        return tree, buffer

    said = reports_of(body)
    assert said == "" or "wrong device" in said or "destroyed" in said


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda ids: ids.astype(np.int32), "id(.|\n)*int32(.|\n)*int64"),
        (lambda ids: ids.astype(np.uint64), "id(.|\n)*uint64(.|\n)*int64"),
        (lambda ids: ids.astype(np.float64), "id(.|\n)*float64(.|\n)*int64"),
        (lambda ids: ids[:, None], "id"),
        (lambda ids: ids[:3], r"4|3"),
    ],
    ids=["int32", "uint64", "float64", "shape", "length"],
)
def test_a_leaf_that_does_not_fit_the_spec(on, buffer, protocol, change, says):
    tree = on_device(on, stack(range(4)))
    tree["id"] = protocol(on.array(change(stack(range(4))["id"])))
    with pytest.raises(echobuf.SpecError, match=says):
        buffer.put_batch(tree)


def test_an_example_that_does_not_fit_the_spec(on, buffer):
    whole = on_device(on, stack(range(4)))
    for wrong in (
        {**rows(whole, 0), "id": whole["id"]},
        {**rows(whole, 0), "id": on.array(np.float32(1))},
        {**rows(whole, 0), "body": (whole["body"][0][0], whole["body"][1][0].T)},
        {**rows(whole, 0), "more": whole["id"][0]},
        {"id": whole["id"][0]},
        whole["id"],
    ):
        with pytest.raises(echobuf.SpecError):
            buffer.put(wrong)


def test_the_last_of_many_leaves(on, buffer):
    tree = on_device(on, stack(range(2)))
    words, tail = tree["body"]
    both_puts(buffer, {**tree, "body": (words, tail.T)}, echobuf.SpecError, "body")
    host = stack(range(2))
    both_puts(
        buffer,
        {**host, "body": (host["body"][0], on.array(np.zeros((2, 3, 2), np.uint8)))},
        echobuf.SpecError,
        "body",
    )


def test_a_stream_of_another_device(on, buffer):
    tree = on_device(on, stack(range(2)))
    stream = on.stream(device=1)
    both_puts(buffer, tree, echobuf.OptionError, "cuda:1", stream=stream)


def test_a_stream_that_was_closed(on, buffer):
    stream = on.stream()
    stream.close()
    tree = on_device(on, stack(range(2)))
    both_puts(buffer, tree, echobuf.DeviceError, "ended", stream=stream)


def test_a_handle_of_a_destroyed_stream_is_reported():
    def body(simulation):
        buffer = make(device="cuda", window=8, factor=1)
        tree = on_device(simulation, stack(range(2)))
        stream = simulation.stream()
        handle = stream.ptr
        stream.close()
        with pytest.raises(echobuf.DeviceError):
            buffer.put_batch(tree, stream=handle)
        return tree, buffer

    assert "destroyed handle" in reports_of(body)


# ---- captures


def both_puts_in_capture(buffer, tree, **kwargs):
    both_puts(buffer, tree, echobuf.OptionError, "captur", **kwargs)


def test_a_stream_that_is_captured(on, buffer):
    stream = on.stream()
    tree = on_device(on, stack(range(2)))
    graph = Graph(stream)
    with graph:  # which the refusal leaves valid
        both_puts_in_capture(buffer, tree, stream=stream)
        with stream:
            both_puts_in_capture(buffer, tree)
    graph.close()


def test_an_array_whose_stream_is_captured(on, buffer):
    stream, other = on.stream(), on.stream()
    tree = on_device(on, stack(range(2)))
    with stream:
        tree["id"] = Interface(tree["id"])
    graph = Graph(stream)
    with graph, other, pytest.raises(echobuf.OptionError, match="captur"):
        buffer.put_batch(tree)
    graph.close()


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["global", "thread", "relaxed"])
def test_other_threads_put_while_a_stream_is_captured(on, mode):
    captured = ctypes.c_void_p(on.stream().ptr)
    with make(device="cuda", window=8, factor=1) as buffer:

        def put():
            with on.stream():
                for number in range(8):
                    buffer.put(on_device(on, example(number)))

        with context() as calls:
            assert calls.cuStreamBeginCapture_v2(captured, mode) == 0
            Worker(put).result()
            graph = ctypes.c_void_p()
            assert calls.cuStreamEndCapture(captured, ctypes.byref(graph)) == 0
            calls.cuGraphDestroy(graph)
        buffer.close()
        assert len(drawn(buffer)) == 2


# ---- memory that is gone; buffers that are


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_freed_memory_is_reported(seed):
    def body(simulation):
        buffer = make(device="cuda", window=8, factor=1)
        tree = on_device(simulation, stack(range(4)))
        tree["id"].free()
        buffer.put_batch(tree)
        return tree, buffer

    assert "use after free" in reports_of(body, seed)


def test_after_close_and_after_the_context(on):
    tree = on_device(on, stack(range(4)))
    with make(device="cuda", window=8, factor=1) as buffer:
        buffer.put_batch(tree)
        buffer.close()
        both_puts(buffer, tree, echobuf.ClosedError, "close")
    both_puts(buffer, tree, echobuf.ClosedError, None)


def test_after_the_simulation():
    with simulated_cuda(1) as simulation:
        buffer = make(device="cuda", window=8, factor=1)
        tree = on_device(simulation, stack(range(4)))
    both_puts(buffer, tree, echobuf.DeviceError, "ended")


def test_a_version_that_is_no_number(on, buffer):
    tree = on_device(on, stack(range(4)))
    for version in ("1", 1.5, [1, 2], on.array(np.arange(4))):
        with pytest.raises((echobuf.EchobufError, TypeError)):
            buffer.put_batch(tree, version=version)


def test_the_spec_of_a_buffer_may_be_given_by_device_arrays(on):
    one = on_device(on, rows(stack(range(1)), 0))
    with echobuf.EchoBuffer(
        one, batch_size=4, window=8, factor=1, device="cuda"
    ) as buffer:
        buffer.put_batch(on_device(on, stack(range(8))))
        buffer.close()
        got = drawn(buffer)
    with echobuf.EchoBuffer(SPEC, batch_size=4, window=8, factor=1) as host:
        host.put_batch(stack(range(8)))
        host.close()
        assert got == drawn(host)
