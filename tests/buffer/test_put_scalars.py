"""Scalars and arrays without axes are put as they are, or refused."""

import numpy as np
import pytest

import echobuf
from echobuf import Field
from helpers import WAIT_S

pytestmark = pytest.mark.contract


SCALARS = [
    np.datetime64(1, "s"),
    np.timedelta64(1, "s"),
    np.void(b"a"),
    np.array((1,), [("a", "u1")])[()],
    np.str_("a"),
    np.bytes_(b"a"),
    np.int8(1),
    np.bool_(True),
    np.float32(1),
    np.uint64(1),
    np.array(1, ">u2"),
    np.array([1], "u1"),
    np.datetime64(1, "s").view("V8"),
]


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("shape", [(), (1,), (8,)])
def test_scalars_that_are_no_bytes_are_refused(scalar, shape):
    if np.asarray(scalar).dtype == "u1" and np.shape(scalar) == shape:
        return
    spec = Field(shape, "u1")
    with echobuf.EchoBuffer(spec, batch_size=1, window=1, factor=1) as buffer:
        with pytest.raises(echobuf.SpecError):
            buffer.put(scalar)
        buffer.close()
        assert list(buffer) == []


DTYPES = ["u1", "i2", "u8", "?", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[us]"]


@pytest.mark.parametrize("dtype", [*DTYPES, "V3", ">i4", ">f8"])
def test_scalars_and_arrays_without_axes_of_the_dtype_are_taken(dtype):
    zeros = np.zeros((), dtype)
    ones = np.frombuffer(b"\1" * zeros.nbytes, "?" if dtype == "?" else dtype)[0]
    with echobuf.EchoBuffer(zeros, batch_size=4, window=4, factor=1) as buffer:
        for array in (zeros, np.array(ones, dtype)):
            buffer.put(array)
            buffer.put(array if ">" in dtype else array[()])  # its scalars are native
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
    assert batch.dtype == zeros.dtype
    rows = batch.view(f"V{zeros.nbytes}").tolist()
    assert sorted(rows) == sorted([bytes(zeros.nbytes), b"\1" * zeros.nbytes] * 2)
