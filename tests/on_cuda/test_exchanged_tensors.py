"""Tensors on a device that the core reads by DLPack's exchange API, without Python."""

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import echobuf
from echobuf.testing import simulated_cuda

CUDA = 2


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class Dtype(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class Described(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", Dtype),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


DESCRIBE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Described))


class Exchange(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("export", ctypes.c_void_p),
        ("take", ctypes.c_void_p),
        ("describe", DESCRIBE),
        ("current_stream", ctypes.c_void_p),
    )


@DESCRIBE
def describe(tensor, described):
    said = described.contents
    tensor.asked += 1
    said.data, said.byte_offset = tensor.address, 0
    said.device = Device(CUDA, tensor.array.device)
    said.dtype = Dtype(2, 32, 1)  # float32
    said.ndim = len(tensor.shape)
    said.shape, said.strides = tensor.extents, tensor.steps
    return 0


NAME = ctypes.create_string_buffer(b"dlpack_exchange_api")  # which capsules refer to
EXCHANGE = Exchange(1, 3, None, None, None, None, describe, None)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Tensor:
    """A tensor of float32, of a simulated device."""

    __dlpack_c_exchange_api__ = new_capsule(
        ctypes.addressof(EXCHANGE), ctypes.addressof(NAME), None
    )
    is_cuda, requires_grad = True, False
    layout = "strided"
    dtype = "torch.float32"

    def __init__(self, array, requires_grad=False):
        self.array, self.requires_grad, self.asked = array, requires_grad, 0
        self.shape = array.shape
        self.device = SimpleNamespace(type="cuda", index=array.device)
        self.address = array.__cuda_array_interface__["data"][0]
        count = ctypes.c_int64 * len(self.shape)
        self.extents = count(*self.shape)
        self.steps = count(*self.stride())

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        return Tensor(self.array[index])

    def stride(self):
        return tuple(step // 4 for step in self.array.strides)

    def data_ptr(self):
        return self.address

    def is_neg(self):
        return False

    is_conj = is_neg

    def is_contiguous(self):
        return False

    def get_device(self):
        return self.array.device


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    here = SimpleNamespace(Tensor=Tensor, strided="strided", float32="torch.float32")
    monkeypatch.setitem(sys.modules, "torch", here)


def drawn(tensors):
    """What is served of twelve examples of two leaves."""
    x = np.arange(12 * 6, dtype=np.float32).reshape(12, 2, 3)
    y = -np.arange(12, dtype=np.float32)
    with simulated_cuda(3) as simulation:
        spec = {"x": echobuf.Field((3, 2), np.float32), "y": y[0]}
        buffer = echobuf.EchoBuffer(spec, batch_size=4, window=8, device="cuda")
        if not tensors:
            buffer.put_batch({"x": x.transpose(0, 2, 1), "y": y})
        else:
            leaf = Tensor(simulation.array(x.transpose(0, 2, 1).copy().T.copy().T))
            buffer.put_batch({"x": leaf, "y": Tensor(simulation.array(y))})
            assert leaf.asked == 2  # first as one of the host
        buffer.close()
        return [(batch["x"].copy(), batch["y"].copy()) for batch in buffer]


def test_strided_tensors_are_served_as_arrays_of_the_host():
    served, wanted = drawn(tensors=True), drawn(tensors=False)
    assert len(served) == len(wanted) == 6
    for got, from_host in zip(served, wanted, strict=True):
        assert all(map(np.array_equal, got, from_host))


def test_ragged_tensors_are_read_the_same_way():
    values, offsets = np.arange(10, dtype=np.float32), np.array([0, 3, 3, 10])
    with simulated_cuda() as simulation:
        spec = echobuf.Field((None,), np.float32, max_length=8)
        buffer = echobuf.EchoBuffer(
            spec, batch_size=3, window=3, factor=1, device="cuda"
        )
        leaf = Tensor(simulation.array(values))
        buffer.put_batch(echobuf.Ragged(leaf, offsets))
        buffer.close()
        lengths = [len(each) for each in buffer.next_batch().to_list()]
        assert (sorted(lengths), leaf.asked) == ([0, 3, 7], 2)


def test_whole_batches_may_hold_them():
    y = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    ragged = echobuf.Ragged(np.arange(3, dtype=np.float32), np.array([0, 1, 3]))
    with simulated_cuda() as simulation:
        spec = {
            "x": echobuf.Field((2, None), np.float32, max_length=4),
            "y": echobuf.Field((2, 3), np.float32),
        }
        buffer = echobuf.EchoBuffer(
            spec, unit="batch", window=2, factor=1, device="cuda"
        )
        put = {"x": [ragged, ragged], "y": Tensor(simulation.array(y))}
        buffer.put_batch(put)
        buffer.close()
        served = sorted(batch["y"].tolist() for batch in buffer)
        assert served == y.tolist()


@pytest.mark.parametrize(
    ("device", "shape", "options", "says"),
    [
        (1, (3,), {}, "is on cuda:1, but the buffer is on cuda:0"),
        (0, (4,), {}, r"has shape \[4\]; the spec says \[3\]"),
        (0, (3,), {"requires_grad": True}, r"requires a gradient.*x.detach\(\)"),
    ],
)
def test_what_does_not_fit_is_said(device, shape, options, says):
    with simulated_cuda() as simulation:
        spec = {"x": echobuf.Field((3,), np.float32)}
        buffer = echobuf.EchoBuffer(spec, batch_size=1, window=2, device="cuda")
        values = np.zeros(shape, np.float32)
        leaf = Tensor(simulation.array(values, device=device), **options)
        with pytest.raises(echobuf.SpecError, match=f"`example.'x'.` {says}"):
            buffer.put({"x": leaf})
        assert buffer.stats().fresh == 0
