"""Errors of the CUDA driver, and what to do about them."""

from __future__ import annotations

import re

from echobuf import _core
from echobuf.errors import DeviceError, ForkError

OUT_OF_MEMORY = 2
_OPERATING_SYSTEM = 304
_GONE = (
    "The device's context is gone: somebody has reset the device. The kernels and the "
    "memory of CuPy and torch are gone with it: restart the process."
)
_CAPTURE = (
    "A stream is being captured, or its capture has gone wrong: draw on the stream "
    "that is captured, or after the capture. Nothing is lost."
)
_ADVICE = {
    3: "CUDA cannot be used in a process that was forked after it was started: use the "
    "start method 'spawn'.",
    4: "The interpreter, or the driver, is shutting down.",
    35: "Update the NVIDIA driver.",
    100: "There is no CUDA device; see `nvidia-smi` and CUDA_VISIBLE_DEVICES.",
    101: "There is no such device; see `nvidia-smi -L` and CUDA_VISIBLE_DEVICES.",
    201: _GONE,
    709: _GONE,
    803: "The NVIDIA driver and its kernel module are of different versions: restart "
    "the machine.",
    804: "The installed NVIDIA driver is too old for this device or container.",
    900: _CAPTURE,
    901: _CAPTURE,
    906: _CAPTURE,
}
_CODE = re.compile(r"\b[A-Z_]+ \((\d+)\)")  # in the core's text of an error
_DEFAULT = (
    "After such an error nothing on the device can be relied on: restart the process. "
    "CUDA_LAUNCH_BLOCKING=1 and compute-sanitizer find out whose kernel it was."
)
_INSTALL = (
    "To use a GPU, install the NVIDIA driver (from your distribution, or "
    "https://www.nvidia.com/drivers) and CuPy (pip install cupy-cuda13x); without one, "
    "use device='cpu'."
)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an allocation was refused."""
    if isinstance(error, MemoryError):
        return True
    if not isinstance(error, _core.CudaError):
        return False
    code, text = error.args
    if code == _OPERATING_SYSTEM and "cuMemHost" in text:
        return True  # it does not lock as much
    return bool(code == OUT_OF_MEMORY)


def device_error(
    name: str, error: Exception | str, code: int | None = None
) -> DeviceError:
    """Return the error for a driver's refusal, with advice.

    Args:
        name: of the device.
        error: a `CudaError` of the core, or the text of one.
        code: the driver's, if `error` is a text.
    """
    text = str(error)
    if isinstance(error, _core.CudaError):
        code, text = error.args
    elif code is None and (found := _CODE.search(text)):
        code = int(found[1])
    if code == 0:  # no driver, or one that lacks a call
        return DeviceError(f"`device` is {name!r}, but {text}. {_INSTALL}")
    advice = _DEFAULT if code is None else _ADVICE.get(code, _DEFAULT)
    return DeviceError(f"`device` is {name!r}: {text}. {advice}")


def fork_error() -> ForkError:
    """Return the error for a buffer on a device that a forked child uses."""
    return ForkError(
        "this buffer belongs to the parent process: neither its threads nor its device "
        "are there in a forked child. Make a buffer in this process, started with the "
        "method 'spawn'."
    )
