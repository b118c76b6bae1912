"""Arrays that lie on a CUDA device: which leaves are some, and where their bytes are.

Knows torch, CuPy and JAX by the modules that are loaded, and imports none of them.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from echobuf import _core, hints
from echobuf.errors import SpecError, message

Strides: TypeAlias = tuple[int, ...] | None
"""In bytes; None for an array that is dense, the last axis first."""

_ON_HOST = frozenset(
    {
        *(np.ndarray, int, float, bool, complex, str, bytes, bytearray, memoryview),
        *(type(None), list, tuple, dict),
    }
)
"""Types none of whose instances lies on a device, and that most leaves are of."""

_NUMPYS = (np.ndarray, np.generic)
_CUDA = (2, 13)  # DLDeviceType: memory of a device, and managed; 3 is pinned
_INTERFACE = "__cuda_array_interface__"
_PLATFORMS = ("cuda", "gpu")  # JAX's names

LEGACY = 1
"""The handle of the default stream, in all protocols."""


class DeviceArray(NamedTuple):
    """The place and layout of an array on a device.

    Attributes:
        address: of the first element; of an empty array it may be 0.
        shape: the extents.
        strides: in bytes; None for a dense array.
        dtype: of the elements.
        ordinal: the number of the device; None where the array does not say it.
        stream: the handle of the stream that the array is valid on, where it says one;
            None: it is valid on the stream that `read` was given.
        owner: keeps the memory alive.
        reused: True if an allocator that does not know the stream of a copy may give
            the memory to others as soon as the owner is dropped.
    """

    address: int
    shape: tuple[int, ...]
    strides: Strides
    dtype: np.dtype[Any]
    ordinal: int | None
    stream: int | None
    owner: Any
    reused: bool


def is_on_device(leaf: Any) -> bool:
    """Return True for an array in the memory of a CUDA device; in pinned memory, False.

    Args:
        leaf: anything.
    """
    kind = type(leaf)  # an instance may say that it is of another
    if kind in _ON_HOST or issubclass(kind, _NUMPYS):
        return False
    if is_tensor(leaf):
        return bool(leaf.is_cuda)
    if is_cupys(leaf):
        return True
    try:
        if hasattr(kind, "__dlpack_device__"):
            return _dlpack_device(leaf)[0] in _CUDA
        has_interface = hasattr(kind, _INTERFACE) or _INTERFACE in _attributes(leaf)
    except Exception:  # of the code of a metaclass
        return False
    return has_interface and _interface_of(leaf) is not None


def is_exchanged(leaf: Any) -> bool:
    """Return True for a tensor on a device that the core reads without Python.

    Args:
        leaf: an array on a device.
    """
    return _EXCHANGE in type(leaf).__dict__ and is_tensor(leaf)


_EXCHANGE = "__dlpack_c_exchange_api__"


def place(leaf: Any) -> str:
    """Return the place of an array on a device, such as `cuda:1`, for a message."""
    ordinal = leaf.device.index if is_tensor(leaf) else _ordinal_of(leaf)
    return "a CUDA device" if ordinal is None else f"cuda:{ordinal}"


def read(leaf: Any, name: str, stream: int) -> DeviceArray:
    """Return the place and layout of an array that `is_on_device`.

    Args:
        leaf: the array.
        name: of the leaf, for messages.
        stream: the handle of the stream that will read the array. An array of DLPack is
            valid there from then on.

    Raises:
        SpecError: the array is sparse, masked, or of a dtype that NumPy lacks; needs a
            gradient; means more than its bytes; or its library refuses.
    """
    if is_tensor(leaf):
        return _read_tensor(leaf, name)
    if is_cupys(leaf):
        address, ordinal = int(leaf.data.ptr), int(leaf.device.id)
        return _made(
            (address, leaf.shape, leaf.strides, leaf.dtype, ordinal, None, leaf, True)
        )
    # JAX's arrays have both; by the interface they would not wait for their values.
    interface = None if is_jaxs(leaf) else _interface_of(leaf)
    if interface is not None:
        return _read_interface(leaf, interface, name)
    return _read_capsule(leaf, name, stream)


def on_cpu_refused(leaf: Any, name: str) -> SpecError:
    """Return the error for an array on a device where arrays of the host are stored."""
    where = place(leaf)
    call = ", `jax.device_get(x)`" if is_jaxs(leaf) else ""
    for name_of_call in ("cpu", "get"):  # torch's and CuPy's
        if hasattr(leaf, name_of_call):
            call = f", `x.{name_of_call}()`"
    there = f" with device={where!r}" if where.startswith("cuda") else ""
    return SpecError(
        f"`{name}` is on {where}, but the buffer is on the CPU, and nothing is moved "
        f"silently. One{there} takes it where it is; worker processes and servers take "
        f"arrays on the CPU alone. Or copy it to the host{call}."
    )


def is_tensor(leaf: Any) -> bool:
    """Return True for a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(type(leaf), torch.Tensor)


def is_cupys(leaf: Any) -> bool:
    """Return True for an array of CuPy."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and issubclass(type(leaf), cupy.ndarray)


def cupy_stream(ordinal: int) -> int:
    """Return the handle of CuPy's current stream of a device, where CuPy is loaded."""
    return int(sys.modules["cupy"].cuda.get_current_stream(ordinal).ptr)


def is_jaxs(leaf: Any) -> bool:
    """Return True for an array of JAX; for a traced one, False."""
    jax = sys.modules.get("jax")
    return jax is not None and issubclass(type(leaf), jax.Array)


# ---- where it is


def _dlpack_device(leaf: Any) -> tuple[int, int | None]:
    """Return DLPack's type and number of the device of an array that knows DLPack."""
    try:
        kind, number = leaf.__dlpack_device__()
        return int(kind), int(number)
    except Exception:  # JAX has none for an array on several devices
        return (_CUDA[0] if _is_sharded(leaf) else 0), None


def _is_sharded(leaf: Any) -> bool:
    """Return True for an array of JAX on several CUDA devices."""
    if not is_jaxs(leaf):
        return False
    try:
        return any(device.platform in _PLATFORMS for device in leaf.devices())
    except Exception:  # it is traced, or has been deleted
        return False


def _ordinal_of(leaf: Any) -> int | None:
    """Return the number of the device of an array that is no tensor, if it says one."""
    if hasattr(type(leaf), "__dlpack_device__"):
        return _dlpack_device(leaf)[1]
    device = getattr(leaf, "device", None)
    for name in ("id", "index"):
        number = getattr(device, name, None)
        if isinstance(number, int):
            return number
    return None


def _attributes(leaf: Any) -> dict[str, Any]:
    """Return the attributes of an instance, without running code of its class."""
    try:
        own: dict[str, Any] = object.__getattribute__(leaf, "__dict__")
    except AttributeError:  # it has slots
        return {}
    return own


def _interface_of(leaf: Any) -> dict[str, Any] | None:
    """Return the `__cuda_array_interface__`, if there is one."""
    try:
        interface = leaf.__cuda_array_interface__
    except Exception:  # classes answer with what they like
        return None
    return interface if isinstance(interface, dict) else None


# ---- what it says


def _read_tensor(tensor: Any, name: str) -> DeviceArray:
    dtype = _of_torchs.get(tensor.dtype)
    if dtype is None:
        dtype = dtype_of(str(tensor.dtype).removeprefix("torch."), name)
        _of_torchs[tensor.dtype] = dtype
    why = _why_refused(tensor)
    if why is not None:
        raise SpecError(f"`{name}` {why}")
    strides = None
    try:
        address, shape, ordinal = tensor.data_ptr(), tensor.shape, tensor.device.index
        if not tensor.is_contiguous():
            strides = tuple(step * dtype.itemsize for step in tensor.stride())
    except RuntimeError as error:  # of subclasses without memory, or of many shapes
        raise _unreadable(tensor, name, error) from error
    return _made((address, shape, strides, dtype, ordinal, None, tensor, False))


# DeviceArray(...) takes 150 ns longer.
_made = functools.partial(tuple.__new__, DeviceArray)

_of_torchs: dict[Any, np.dtype[Any]] = {}
"""NumPy's dtypes by those of torch that tensors had."""


def _why_refused(tensor: Any) -> str | None:
    """Return why a tensor is not what its bytes say, and what to give; else None."""
    if tensor.layout != sys.modules["torch"].strided:
        if getattr(tensor, "is_nested", False):
            return f"is a nested tensor. {hints.PAD_NESTED}"
        return f"is {tensor.layout}; give `x.to_dense()`."
    if tensor.requires_grad:
        return "requires a gradient, which is not kept; give `x.detach()`."
    if tensor.is_conj():
        return "has yet to be conjugated; give `x.resolve_conj()`."
    if tensor.is_neg():
        return "has yet to be negated; give `x.resolve_neg()`."
    return None


def _read_interface(leaf: Any, interface: dict[str, Any], name: str) -> DeviceArray:
    if interface.get("mask") is not None:
        raise SpecError(
            f"`{name}` is a masked array, whose mask would be lost; fill it, or make "
            "the mask a leaf of its own."
        )
    try:
        address, shape = int(interface["data"][0] or 0), tuple(interface["shape"])
        strides, stream = interface.get("strides"), interface.get("stream")
        dtype = _dtype_in(interface, leaf)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise _unreadable(leaf, name, error) from error
    strides = None if strides is None else tuple(strides)
    if stream is not None:
        stream = int(stream) or LEGACY  # 0 is forbidden; some say it all the same
    return DeviceArray(
        address, shape, strides, dtype, _ordinal_of(leaf), stream, leaf, True
    )


def _dtype_in(interface: dict[str, Any], leaf: Any) -> np.dtype[Any]:
    """Return the dtype; the leaf's, where a string cannot say it."""
    said: np.dtype[Any] = np.dtype(interface["typestr"])
    if said.kind != "V" or not hasattr(leaf, "dtype"):
        return said
    own: np.dtype[Any] = np.dtype(leaf.dtype)
    return own if own.itemsize == said.itemsize else said


def _read_capsule(leaf: Any, name: str, stream: int) -> DeviceArray:
    try:
        capsule = _export(leaf, stream or LEGACY)
        address, shape, strides, named, kind, ordinal = _core.read_dlpack(capsule)
    except Exception as error:  # libraries refuse with what they like
        raise _unreadable(leaf, name, error) from error
    if kind not in _CUDA:
        raise SpecError(
            f"`{name}` is a {type(leaf).__name__} on a CUDA device that DLPack brought "
            "to another place; give an array of CuPy, or a tensor of torch."
        )
    dtype = dtype_of(named or str(getattr(leaf, "dtype", "an unknown one")), name)
    return DeviceArray(address, shape, strides, dtype, ordinal, None, capsule, True)


def _export(leaf: Any, stream: int) -> Any:
    """Return a capsule, in the newest form that the leaf's library knows."""
    try:
        return leaf.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # of before 2024
        return leaf.__dlpack__(stream=stream)


def dtype_of(known: str, name: str) -> np.dtype[Any]:
    """Return the dtype that torch, JAX and NumPy have under one name.

    Args:
        known: its name, such as `bfloat16`, which NumPy has once `ml_dtypes` is loaded.
        name: of the leaf that has the dtype, for messages.

    Raises:
        SpecError: NumPy lacks it.
    """
    try:
        return _dtype_named(known)
    except (TypeError, AttributeError):
        text = f"`{name}` has dtype {known}, which NumPy lacks. "
        raise SpecError(f"{text}{hints.of_dtype(known)}".rstrip()) from None


@functools.cache
def _dtype_named(known: str) -> np.dtype[Any]:
    if known in hints.FOREIGN:
        known = getattr(sys.modules.get("ml_dtypes"), known)
    dtype: np.dtype[Any] = np.dtype(known)
    return dtype


def _unreadable(leaf: Any, name: str, error: BaseException) -> SpecError:
    return SpecError(
        f"`{name}` is a {type(leaf).__name__} on {place(leaf)} that cannot be read: "
        f"{message(error).rstrip('.')}. Give a dense array of CuPy, torch or JAX that "
        "is on one device."
    )
