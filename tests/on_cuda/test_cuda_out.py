"""`out=` on a device: arrays of the stand-in for CuPy, of every kind."""

import gc

import numpy as np
import pytest

import echobuf
import fake_cuda
import fake_memory
from helpers import KWARGS, SPEC, WAIT_S, Worker, ids_of, make, stack
from helpers import expected_batches as expected
from test_cuda_cupy import drain, empty_batch, filled, host, unchanged

__all__ = ["unchanged"]  # a fixture

BATCH = KWARGS["batch_size"]


def reversed_axes(cupy, shape, dtype):
    """An array in Fortran's order."""
    return cupy.empty(shape[::-1], dtype).T


def every_other(cupy, shape, dtype):
    return cupy.empty((2 * shape[0], *shape[1:]), dtype)[::2]


def backwards(cupy, shape, dtype):
    return cupy.empty(shape, dtype)[::-1]


def a_part(cupy, shape, dtype):
    """At an address that is no multiple of 16."""
    return cupy.empty((shape[0] + 1, *shape[1:]), dtype)[1:]


def foreign(cupy, shape, dtype):
    """An array that says where it is by `__cuda_array_interface__` alone."""

    class Foreign:
        def __init__(self):
            self.owner = cupy.empty(shape, dtype)
            self.__cuda_array_interface__ = {
                **self.owner.__cuda_array_interface__,
                "strides": None,
            }
            self.shape, self.dtype = shape, self.owner.dtype

        def get(self):
            return self.owner.get()

        def __getitem__(self, index):
            return self.owner[index]

    return Foreign()


def misaligned(cupy, shape, dtype):
    """At an address that is no multiple of an item's size."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return cupy.ndarray(shape, dtype, cupy.empty((size + 1,), np.uint8).data + 1)


def misaligned_rows(cupy, shape, dtype):
    return misaligned(cupy, (2 * shape[0], *shape[1:]), dtype)[::2]


MADE = [
    reversed_axes,
    every_other,
    backwards,
    a_part,
    foreign,
    misaligned,
    misaligned_rows,
]


@pytest.mark.parametrize("made", [None, *MADE])
def test_batches_are_drawn_into_arrays_of_every_layout(cupy, unchanged, made):
    out = empty_batch(cupy)
    if made is not None:
        out = {
            "id": made(cupy, (BATCH,), np.int64),
            "body": tuple(
                made(cupy, (BATCH, *field.shape), field.dtype) for field in SPEC["body"]
            ),
        }
    got = []
    with filled() as buffer:
        for _ in expected(KWARGS, 20):
            assert buffer.next_batch(out, timeout=WAIT_S) is out
            got.append(ids_of(host(out)))
    assert got == expected(KWARGS, 20)


@pytest.mark.parametrize("made", [a_part, every_other])
def test_arrays_are_valid_on_the_stream_given(cupy, unchanged, made):
    stream = cupy.cuda.Stream(non_blocking=True)
    out = empty_batch(cupy)
    out["id"] = made(cupy, (BATCH,), np.int64)
    with filled() as buffer:
        chosen = cupy.cuda.Stream(non_blocking=True).use()
        for want in expected(KWARGS, 20):
            buffer.next_batch(out, timeout=WAIT_S, stream=stream)
            assert cupy.cuda.get_current_stream() is chosen
            with cupy.cuda.Device(0):
                stream.use()
                assert ids_of(host(out)) == want
                chosen.use()
        cupy.cuda.Stream.null.use()


@pytest.mark.parametrize("made", MADE)
def test_a_shorter_last_batch_comes_back_as_views(cupy, unchanged, made):
    out = made(cupy, (4, 3), np.float32)
    field = echobuf.Field((3,), np.float32)
    with echobuf.EchoBuffer(
        field, batch_size=4, window=4, factor=1, device="cuda"
    ) as buffer:
        buffer.put_batch(np.arange(18, dtype=np.float32).reshape(6, 3))
        buffer.close()
        rows = [*buffer.next_batch(out, timeout=WAIT_S).get()]
        last = buffer.next_batch(out, timeout=WAIT_S)
        assert last.shape == (2, 3)
        rows += [*last.get()]
    assert sorted(row[0] for row in rows) == [0, 3, 6, 9, 12, 15]


@pytest.mark.parametrize("made", MADE)
def test_chains_store_into_arrays_of_every_layout(cupy, unchanged, made):
    chain = [echobuf.transforms.ToDtype(np.float32, scale=True)]
    spec = echobuf.Field((3, 5, 1), np.uint8)
    images = np.arange(4 * 15, dtype=np.uint8).reshape(4, 3, 5, 1)
    drawn = []
    for device in ("cpu", "cuda"):
        with echobuf.EchoBuffer(
            spec, batch_size=4, window=4, factor=1, device=device, transform=chain
        ) as buffer:
            buffer.put_batch(images)
            if device == "cpu":
                drawn.append(buffer.next_batch())
                continue
            out = made(cupy, (4, 3, 5, 1), np.float32)
            assert buffer.next_batch(out, timeout=WAIT_S) is out
            drawn.append(out.get())
    np.testing.assert_array_equal(*drawn)


def test_leaves_without_elements(cupy, unchanged):
    spec = {"none": echobuf.Field((0, 3), np.float64), "id": echobuf.Field((), np.int8)}
    out = {"none": cupy.empty((2, 0, 3)), "id": cupy.empty((2,), np.int8)}
    with echobuf.EchoBuffer(
        spec, batch_size=2, window=2, factor=1, device="cuda"
    ) as buffer:
        buffer.put_batch({"none": np.empty((4, 0, 3)), "id": np.arange(4, dtype="i1")})
        buffer.close()
        first = buffer.next_batch(out, timeout=WAIT_S)["id"].get()
        second = buffer.next_batch(timeout=WAIT_S)
        assert second["none"].shape == (2, 0, 3)
    assert sorted([*first, *second["id"].get()]) == [0, 1, 2, 3]


# ---- what does not fit


def overlapping_itself(cupy):
    words, _ = SPEC["body"]
    row = cupy.empty(words.shape, words.dtype)
    strides = (0, words.dtype.itemsize)
    return cupy.ndarray((BATCH, *words.shape), words.dtype, row.data, strides)


class ReadOnly:
    def __init__(self, array):
        interface = array.__cuda_array_interface__
        data = interface["data"][0], True
        self.__cuda_array_interface__ = {**interface, "data": data}


def wrong(cupy):
    """(leaf 'body'[0], what the error says)."""
    shape, dtype = (BATCH, *SPEC["body"][0].shape), SPEC["body"][0].dtype
    with cupy.cuda.Device(1):
        elsewhere = cupy.empty(shape, dtype)
    return {
        "shape": (cupy.empty((BATCH, 5), dtype), "has shape"),
        "0-d": (cupy.empty((), dtype), "has shape"),
        "dtype": (cupy.empty(shape, np.int64), "has dtype int64"),
        "order": (cupy.empty(shape, ">u8"), "has dtype"),
        "device": (elsewhere, "on cuda:1"),
        "host": (np.empty(shape, dtype), "in host memory"),
        "list": ([[1, 2]], "in host memory|structure"),
        "read-only": (ReadOnly(cupy.empty(shape, dtype)), "read-only"),
        "itself": (overlapping_itself(cupy), "overlaps itself"),
    }


WRONG = ["shape", "0-d", "dtype", "order", "device", "host", "list", "read-only"]


@pytest.mark.parametrize("kind", [*WRONG, "itself"])
def test_arrays_that_do_not_fit_are_refused(cupy, unchanged, kind):
    leaf, says = wrong(cupy)[kind]
    out = empty_batch(cupy)
    out["body"] = leaf, out["body"][1]
    with filled() as buffer:
        for _ in range(2):
            with pytest.raises(echobuf.SpecError, match=says):
                buffer.next_batch(out, timeout=WAIT_S)
        assert list(drain(buffer)) == expected(KWARGS, 20)


def test_leaves_that_overlap_are_refused(cupy, unchanged):
    spec = [echobuf.Field((4,), np.uint8)] * 2
    shared = cupy.empty((4, 6), np.uint8)
    options = {"batch_size": 4, "window": 4, "device": "cuda"}
    with echobuf.EchoBuffer(spec, **options) as buffer:
        buffer.put_batch([np.ones((4, 4), np.uint8)] * 2)
        with pytest.raises(echobuf.SpecError, match="overlaps `out"):
            buffer.next_batch([shared[:, :4], shared[:, 2:]])


def test_out_is_checked_again_when_it_has_changed(cupy, unchanged):
    out = empty_batch(cupy)
    with filled() as buffer:
        buffer.next_batch(out, timeout=WAIT_S)
        good = out["id"]
        out["id"] = good.view(np.uint64)
        with pytest.raises(echobuf.SpecError, match="uint64"):
            buffer.next_batch(out, timeout=WAIT_S)
        out["id"] = good
        buffer.next_batch(out, timeout=WAIT_S)
        assert ids_of(host(out)) == expected(KWARGS, 20)[1]


def test_threads_draw_each_into_its_own(cupy, unchanged):
    kwargs = {**KWARGS, "factor": 4}
    with filled(factor=4) as buffer:

        def consume(made):
            got = []
            with cupy.cuda.Stream(non_blocking=True):
                out = empty_batch(cupy)
                out["id"] = made(cupy, (BATCH,), np.int64)
                while True:
                    try:
                        buffer.next_batch(out, timeout=WAIT_S)
                    except StopIteration:
                        return got
                    got.append(ids_of(host(out)))

        workers = [Worker(consume, made) for made in (a_part, every_other, a_part)]
        served = [batch for worker in workers for batch in worker.result()]
    assert sorted(served) == sorted(expected(kwargs, 20))


def test_a_copy_without_room_is_a_clear_error(cupy, unchanged):
    out = empty_batch(cupy)
    out["id"] = every_other(cupy, (BATCH,), np.int64)
    with filled() as buffer:
        gc.collect()
        fake_memory.free_all_blocks()
        for nth in (1, 2, 3):
            fake_cuda.fail("cuMemAlloc_v2", fake_cuda.OUT_OF_MEMORY, nth)
        with pytest.raises(echobuf.CapacityError, match="does not fit the memory"):
            buffer.next_batch(out, timeout=WAIT_S)
        assert list(drain(buffer)) == expected(KWARGS, 20)


def test_a_small_buffer_says_that_there_is_no_stream_on_the_cpu():
    with make() as buffer:
        buffer.put_batch(stack(range(4)))
        with pytest.raises(echobuf.OptionError, match="must be None"):
            buffer.next_batch(stream=3)
