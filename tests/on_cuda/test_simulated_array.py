"""Arrays that lie on a simulated device, which the host cannot read."""

import gc

import ml_dtypes
import numpy as np
import pytest

import fake_cuda
from echobuf import DeviceError
from echobuf.testing import SimulationError, simulated_cuda

VALUES = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


@pytest.fixture
def on():
    with simulated_cuda(1) as simulation:
        yield simulation


def reports_of(body):
    try:
        with simulated_cuda(1) as simulation:
            _kept = body(simulation)
    except SimulationError as error:
        return "\n".join(error.reports)
    return ""


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a.T,
        lambda a: a[1],
        lambda a: a[:, ::-1],
        lambda a: a[..., ::2],
        lambda a: a[None, 0, 1:, -1],
        lambda a: a[1, 2, 3],
        lambda a: a[2:],
    ],
)
def test_a_view_is_numpys(on, view):
    array, expected = view(on.array(VALUES)), view(VALUES)
    assert array.shape == expected.shape
    assert array.strides == expected.strides
    assert array.ndim == expected.ndim
    np.testing.assert_array_equal(array.get(), expected)


def test_views_share_memory(on):
    array, expected = on.array(VALUES), VALUES.copy()
    array[:, 1].copy_from(7)
    expected[:, 1] = 7
    array.T[0].copy_from(np.ones((3, 2)))
    expected.T[0] = 1
    np.testing.assert_array_equal(array.get(), expected)


def test_a_copy_is_made_in_the_order_of_the_stream(on):
    array = on.array(VALUES)
    copy = array.T.copy()
    array.copy_from(0)
    np.testing.assert_array_equal(copy.get(), VALUES.T)
    assert on.array(np.zeros((0, 3))).copy().shape == (0, 3)


def test_the_host_cannot_read_it(on):
    array = on.array(VALUES)
    with pytest.raises(TypeError, match="get"):
        np.asarray(array)
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(array)
    for index in ([0, 1], np.array([True, False]), True):
        with pytest.raises(TypeError, match="index"):
            array[index]


@pytest.mark.parametrize("dtype", [bool, complex, ml_dtypes.bfloat16, np.float16])
def test_it_keeps_its_dtype(on, dtype):
    values = np.array([1, 0, 3]).astype(dtype)
    array = on.array(values)
    assert array.dtype == values.dtype
    np.testing.assert_array_equal(array.get(), values)


def test_it_tells_where_it_is_by_the_interface(on):
    array = on.array(VALUES, device=1)
    interface = array.__cuda_array_interface__
    assert interface["shape"] == (2, 3, 4)
    assert interface["typestr"] == "<i4"
    assert interface["strides"] is None
    assert array.device == 1
    moved = array[:, 1:].__cuda_array_interface__
    assert moved["strides"] == (48, 16, 4)
    assert moved["data"][0] == interface["data"][0] + 16
    stream = on.stream(1)
    with stream:
        assert array.__cuda_array_interface__["stream"] == stream.ptr
    assert on.array(np.zeros((0, 3))).__cuda_array_interface__["data"][0] == 0
    assert not hasattr(on.array(ml_dtypes.bfloat16(1)), "__cuda_array_interface__")


def test_dlpack_orders_the_consumer_after_the_writer(on):
    array, stream = on.array(VALUES), on.stream()
    assert array.__dlpack_device__() == (2, 0)
    array.__dlpack__(stream=stream.ptr)
    with stream:
        array.copy_from(1)
    assert on.reports == []


def test_dlpack_leaves_the_order_to_who_asks_for_that():
    def hand_over(simulation):
        array = simulation.array(VALUES)
        array.__dlpack__(stream=-1)
        with simulation.stream():
            array.copy_from(1)
        return array

    assert "race" in reports_of(hand_over)


def test_it_is_freed_once_it_is_collected(on):
    on.array(VALUES)
    gc.collect()
    assert fake_cuda.calls("echobuf_simulated_free_on") == 1


def test_it_is_freed_where_its_stream_is_gone(on):
    stream = on.stream()
    with stream:
        array = on.array(VALUES)
    stream.close()
    del array
    gc.collect()
    assert fake_cuda.calls("echobuf_simulated_free") == 1


def test_another_stream_must_wait_to_free():
    def free(simulation):
        array = simulation.array(VALUES)
        with simulation.stream():
            array.free()

    # By the order in which the streams run, which is another at each run.
    report = reports_of(free)
    assert "race: `free`" in report or "use after free" in report


@pytest.mark.parametrize("use", [lambda a: a.copy_from(0), lambda a: a.free()])
def test_use_after_the_free_is_reported(use):
    def free_and_use(simulation):
        array = simulation.array(VALUES)
        array.free()
        use(array)

    report = reports_of(free_and_use)
    assert "use after free" in report or "double free" in report


def test_it_may_outlive_its_simulation():
    with simulated_cuda(1) as simulation:
        array = simulation.array(VALUES)
    with pytest.raises(DeviceError, match="has ended"):
        array.get()
    with simulated_cuda(2):
        del array
        gc.collect()


@pytest.mark.parametrize("values", [["a"], [None], np.zeros(2, "M8[s]")])
def test_values_are_numbers(on, values):
    with pytest.raises(TypeError, match="values"):
        on.array(values)
