"""The caller's arrays are read in the order of the caller's stream."""

import gc

import numpy as np
import pytest
from device_examples import Capsule, Interface, reports_of

import echobuf
import fake_cuda
from echobuf import Field
from echobuf.cuda.simulated_driver import driver
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker

FIELD = Field((3,), np.int64)
OPTIONS = {"batch_size": 4, "window": 4, "factor": 1, "device": "cuda"}
VALUES = np.arange(12, dtype=np.int64).reshape(4, 3)


@pytest.fixture(params=[1, 2, 3])
def on(request):
    with simulated_cuda(request.param) as simulation:
        yield simulation


def make(**kwargs):
    return echobuf.EchoBuffer(FIELD, **{**OPTIONS, **kwargs})


def check(buffer):
    """The only batch is what was put."""
    buffer.close()
    batches = [np.array(batch) for batch in buffer]
    served = np.concatenate(batches)
    np.testing.assert_array_equal(served[np.argsort(served[:, 0])], VALUES)


class Protocol:
    def __init__(self, stream):
        self._stream = stream

    def __cuda_stream__(self):
        return 0, self._stream.ptr


class TorchStream:
    def __init__(self, stream):
        self.cuda_stream = stream.ptr


FORMS = {
    "object": lambda stream: stream,
    "handle": lambda stream: stream.ptr,
    "protocol": Protocol,
    "torch": TorchStream,
}


@pytest.mark.parametrize(
    "use",
    [lambda array: array.copy_from(-1), lambda array: array.free()],
    ids=["overwritten", "freed"],
)
def test_it_may_be_used_at_once_in_the_order_of_its_stream(on, use):
    stream = on.stream()
    with make() as buffer:
        with stream:
            array = on.array(VALUES)
            with fake_cuda.held(stream):
                buffer.put_batch(array)
                use(array)
        check(buffer)


def test_examples_one_by_one(on):
    stream = on.stream()
    with make() as buffer:
        with stream, fake_cuda.held(stream):
            for row in VALUES:
                array = on.array(row)
                buffer.put(array)
                array.copy_from(-1)
                array.free()
        check(buffer)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_whole", [False, True])
def test_each_form_of_a_stream(on, form, is_whole):
    stream = on.stream()
    with make() as buffer:
        with stream:
            array = on.array(VALUES)
        given = FORMS[form](stream)
        with fake_cuda.held(stream):
            if is_whole:
                buffer.put_batch(array, stream=given)
            else:
                for i in range(4):
                    buffer.put(array[i], stream=given)
            with stream:
                array.copy_from(-1)
                array.free()
        check(buffer)


@pytest.mark.parametrize("handle", [0, 1, 2])
def test_default_streams(on, handle):
    with make() as buffer:
        array = on.array(VALUES)
        driver().join(0, handle, array.__cuda_array_interface__["stream"])
        buffer.put_batch(array, stream=handle)
        check(buffer)


@pytest.mark.parametrize("stream", [1.5, "stream", object(), -1, True])
def test_values_that_are_no_stream_are_refused(on, stream):
    with make() as buffer:
        array = on.array(VALUES)
        with pytest.raises(echobuf.OptionError, match="`stream`"):
            buffer.put_batch(array, stream=stream)
        buffer.put_batch(array)
        check(buffer)


def test_a_put_waits_for_the_stream_of_the_interface(on):
    """What was written on another stream than the current one is read behind that."""
    writer, other = on.stream(), on.stream()
    with make() as buffer:
        with writer:
            array = on.array(VALUES)
            leaf = Interface(array)
        with fake_cuda.held(writer):
            with other:
                buffer.put_batch(leaf)
            with writer:  # which comes behind the put
                array.copy_from(-1)
                array.free()
        check(buffer)


def test_the_stream_of_the_interface_counts_beside_the_one_given(on):
    writer, other = on.stream(), on.stream()
    with make() as buffer:
        with writer, fake_cuda.held(writer):
            array = on.array(VALUES)
            buffer.put_batch(array, stream=other)
            array.copy_from(-1)
            array.free()
        check(buffer)


def test_a_stream_may_be_closed_once_put_returns(on):
    with make() as buffer:
        stream = on.stream()
        with stream:
            array = on.array(VALUES)
            buffer.put_batch(array)
        stream.close()
        check(buffer)


def test_streams_may_come_and_go(on):
    def put():
        for i in range(60):
            stream = on.stream()
            with stream:
                buffer.put(on.array(np.full(3, i)), timeout=WAIT_S)
            stream.close()
        buffer.close()

    with make(window=4, batch_size=2, factor=2) as buffer:
        worker = Worker(put)
        served = np.concatenate([np.array(batch) for batch in buffer])
        worker.result()
    assert (served == served[:, :1]).all()
    assert sorted(served[:, 0].tolist()) == sorted([*range(60)] * 2)


def test_leaves_that_are_valid_on_different_streams(on):
    first, second = on.stream(), on.stream()
    spec = {"a": FIELD, "b": FIELD}
    with echobuf.EchoBuffer(spec, **OPTIONS) as buffer:
        with first:
            a = on.array(VALUES)
            put_a = Interface(a)
        with second:
            b = on.array(VALUES + 100)
            put_b = Interface(b)
        with fake_cuda.held(first), fake_cuda.held(second):
            buffer.put_batch({"a": put_a, "b": put_b})
            with first:
                a.copy_from(-1)
            with second:
                b.copy_from(-1)
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
        np.testing.assert_array_equal(batch["b"], batch["a"] + 100)
        np.testing.assert_array_equal(np.sort(batch["a"], axis=0), VALUES)


def test_dlpack_is_given_the_stream_of_the_put(on):
    stream, writer = on.stream(), on.stream()
    with make() as buffer:
        with writer:
            leaf = Capsule(on.array(VALUES))
        buffer.put_batch(leaf, stream=stream)
        assert leaf.streams == [stream.ptr]
        check(buffer)


def test_dlpack_is_given_the_current_stream(on):
    stream = on.stream()
    with make() as buffer:
        leaf = Capsule(on.array(VALUES))
        with stream:
            buffer.put_batch(leaf)
        assert leaf.streams == [stream.ptr]
        check(buffer)


def frees():
    """Return how many arrays on the device were given back."""
    return fake_cuda.calls("echobuf_simulated_free_on")


def without_stream(array):
    """As torch's tensors tell it."""
    return Interface(array, stream=..., version=2)


@pytest.mark.parametrize("wrap", [Capsule, Interface, without_stream, lambda a: a])
def test_an_array_that_is_dropped_is_kept_until_it_was_read(on, wrap):
    """Its allocator gives the memory out again in the order of another stream."""
    owner, stream = on.stream(), on.stream()
    with make() as buffer:
        with owner:
            array = on.array(VALUES)
            leaf = wrap(array)
        driver().join(0, stream.ptr, owner.ptr)
        with fake_cuda.held(stream):
            buffer.put_batch(leaf, stream=stream)
            del array, leaf
            gc.collect()
        check(buffer)
    gc.collect()
    assert frees() == 1


def test_arrays_are_not_kept_for_long(on):
    """A buffer that goes on holds a few of what was put, not all of it."""
    with make(window=64, batch_size=4) as buffer:
        for i in range(60):
            buffer.put(Capsule(on.array(VALUES[0] + i)))
            driver().wait_for_all()
        gc.collect()
        assert frees() > 30
    gc.collect()
    assert frees() == 60


def test_puts_in_the_order_of_the_calls_on_any_streams(on):
    """A put whose stream is late holds its place."""
    late, early = on.stream(), on.stream()
    with echobuf.EchoBuffer(FIELD, batch_size=4, window=4, factor=1) as host:
        host.put_batch(VALUES)
        host.close()
        expected = np.array(host.next_batch())
    with make() as buffer:
        with fake_cuda.held(late):
            for i, row in enumerate(VALUES):
                with late if i % 2 == 0 else early:
                    array = on.array(row)
                    buffer.put(array)
                    array.free()
        buffer.close()
        np.testing.assert_array_equal(buffer.next_batch(timeout=WAIT_S), expected)


def test_slots_are_taken_behind_the_draws_that_read_them(on):
    """Draws and puts on their own streams: any missing event would be a race."""
    putting, drawing = on.stream(), on.stream()
    n = 200

    def put():
        with putting:
            for i in range(n):
                array = on.array(np.full(3, i))
                buffer.put(array, timeout=WAIT_S)
                array.copy_from(-1)
        buffer.close()

    with make(window=4, batch_size=2, factor=2) as buffer:
        worker = Worker(put)
        with drawing:
            served = np.concatenate([np.array(batch) for batch in buffer])
        worker.result()
    assert (served == served[:, :1]).all()
    assert sorted(served[:, 0].tolist()) == sorted([*range(n), *range(n)])


# ---- what nothing orders is reported


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("use", [lambda a: a.copy_from(-1), lambda a: a.free()])
@pytest.mark.parametrize("waits", [False, True])
def test_another_stream_must_wait_before_it_overwrites(use, waits, seed):
    def body(simulation):
        putting, other = simulation.stream(), simulation.stream()
        buffer = make()
        with putting:
            array = simulation.array(VALUES)
            driver().join(0, other.ptr, putting.ptr)
            buffer.put_batch(array)
        if waits:
            driver().join(0, other.ptr, putting.ptr)
        with other:
            use(array)
        return array, buffer

    reports = reports_of(body, seed)
    if waits:
        assert reports == ""
    else:
        assert "race" in reports or "use after free" in reports


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_not_yet_written_on_the_stream_given_is_a_race(seed):
    """The caller says where the leaf is valid; without a stream of its own, there."""

    def body(simulation):
        writer, other = simulation.stream(), simulation.stream()
        buffer = make()
        with writer:
            leaf = without_stream(simulation.array(VALUES))
        buffer.put_batch(leaf, stream=other)
        return leaf, buffer

    reports = reports_of(body, seed)
    assert "race" in reports or "unwritten" in reports
