"""Losses that a device computes, on their way to the host: by framework."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from echobuf._engine.forks import spare_in_children
from echobuf.errors import SpecError

Reported: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""The numbers of examples, and their losses."""


def host_array(values: Any) -> npt.NDArray[Any]:
    """Return an array in host memory; of what a device computes, wait for it."""
    if type(values) is np.ndarray and values.dtype.kind in "fiu":
        return values
    if hasattr(values, "detach"):  # a tensor
        values = values.detach().cpu()
        if values.is_floating_point() and values.element_size() < 4:
            values = values.float()  # NumPy has no bfloat16
    elif _is_cupys(values):
        values = values.get()
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SpecError(f"`loss` is no array: {error}.") from None
    if array.dtype.kind == "V" or array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array


def later(index: Any, loss: Any) -> Callable[[], Reported] | None:
    """Return a function that waits for losses that a device computes; else None."""
    if getattr(loss, "is_cuda", False):
        return _of_torch(index, loss)
    if _is_cupys(loss):
        return _CupyLosses(index, loss)
    devices = getattr(loss, "devices", None)
    if callable(devices) and any(each.platform != "cpu" for each in devices()):
        return _of_jax(index, loss)
    return None


def _of_torch(index: Any, loss: Any) -> Callable[[], Reported]:
    import torch

    copies = [
        torch.empty(each.shape, dtype=each.dtype, pin_memory=True).copy_(
            each.detach(), non_blocking=True
        )
        if getattr(each, "is_cuda", False)
        else each
        for each in (index, loss)
    ]
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]
    done.record(torch.cuda.current_stream(loss.device))

    def wait() -> Any:
        done.synchronize()
        return tuple(map(host_array, copies))

    return spare_in_children(wait)


def _is_cupys(values: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(values, cupy.ndarray)


class _CupyLosses:
    """Losses that are on their way to pinned memory, which must stay until then."""

    def __init__(self, index: Any, loss: Any) -> None:
        import cupy

        with loss.device:
            stream = cupy.cuda.get_current_stream()
            self._copies = [
                _cupys_copy(cupy, each, stream) if _is_cupys(each) else each
                for each in (index, loss)
            ]
            event = cupy.cuda.Event(block=True, disable_timing=True)
            self._done = stream.record(event)
        # Not `__del__`: of garbage, a collection may finalise the event before this.
        # Forked children keep this for ever, and so must not wait at their exit either.
        weakref.finalize(self, _wait_for, self._done, self._copies).atexit = False
        spare_in_children(self)

    def __call__(self) -> Reported:
        self._done.synchronize()
        index, loss = map(host_array, self._copies)
        return index, loss


def _wait_for(done: Any, copies: list[Any]) -> None:
    """Wait for an event; until then the copies stay."""
    done.synchronize()


def _cupys_copy(cupy: Any, array: Any, stream: Any) -> npt.NDArray[Any]:
    """Return pinned memory that an array is being copied to."""
    array = cupy.ascontiguousarray(array)
    memory = cupy.cuda.alloc_pinned_memory(max(array.nbytes, 1))
    copy = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
    array.data.copy_to_host_async(copy.ctypes.data, array.nbytes, stream)
    return copy


def _of_jax(index: Any, loss: Any) -> Callable[[], Reported]:
    for each in (index, loss):
        if hasattr(each, "copy_to_host_async"):
            each.copy_to_host_async()
    return lambda: (host_array(index), host_array(loss))
