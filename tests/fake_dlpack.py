"""Capsules of DLPack that say where an array on a device is, by ctypes.

The structs are those of DLPack 1.0 (dlpack.h); nothing of echobuf's is used.
"""

from __future__ import annotations

import ctypes

CUDA, CUDA_HOST, CUDA_MANAGED = 2, 3, 13  # DLDeviceType

_Extents = ctypes.POINTER(ctypes.c_int64)


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", _Extents),
        ("strides", _Extents),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [
        ("tensor", Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
    ]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_kept: dict[int, tuple[object, ...]] = {}  # what capsules hold, by their addresses


class Array:
    """An array on a device that says where it is by DLPack alone.

    Args:
        address: of its memory.
        shape: the extents.
        code: DLDataTypeCode.
        bits: of an element.
        strides: in elements; None for a null pointer.
        offset: bytes from the address to the first element.
        device: DLDeviceType and number.
        major: of DLPack's version; 0 for capsules of before 1.0.
        lanes: of an element.

    Attributes:
        streams: those that were handed over.
        deleted: how many capsules have let go of the array.
    """

    def __init__(
        self,
        address,
        shape,
        code=2,
        bits=32,
        *,
        strides=None,
        offset=0,
        device=(CUDA, 0),
        major=1,
        lanes=1,
    ):
        self._extents = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        self.tensor = Tensor(
            address,
            *device,
            len(shape),
            code,
            bits,
            lanes,
            ctypes.cast(self._extents, _Extents),
            ctypes.cast(self._strides, _Extents) if strides else None,
            offset,
        )
        self.device = device
        self.major = major
        self.streams: list[int | None] = []
        self.deleted = 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, **options):
        if not self.major and options:
            raise TypeError(f"unexpected keyword arguments: {[*options]}")
        self.streams.append(stream)
        name = b"dltensor_versioned" if self.major else b"dltensor"

        def delete(managed):
            self.deleted += 1
            del _kept[managed]

        def destruct(capsule):
            if _is_valid(capsule, name):  # nobody has taken it over
                delete(address)

        deleter = _Deleter(delete)
        managed = (
            Versioned(self.major, 0, None, deleter, 0, self.tensor)
            if self.major
            else Managed(self.tensor, None, deleter)
        )
        address = ctypes.addressof(managed)
        destructor = _Destructor(destruct)
        _kept[address] = (managed, destructor, name, self)
        return _new(address, name, destructor)
