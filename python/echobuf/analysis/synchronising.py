"""Waiting until a device has done what the step gave it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import optree

from echobuf.errors import DeviceError, OptionError
from echobuf.tree import NAMESPACE

_ON_CPU = (1, 3)  # of DLPack: the host, and pinned memory of CUDA
_KNOWN = ("torch", "jax", "jaxlib", "cupy", "numpy")
_OF_TORCH = ("cpu", "cuda", "xpu", "mps", "meta")  # meta: there is nothing to wait for


class Synchroniser:
    """Waits for the devices of the frameworks that are in use; imports none.

    Args:
        function: what the caller gave for it, called without arguments; None: what
            torch, JAX and CuPy offer, where they are imported and have a device.
    """

    def __init__(self, function: Callable[[], Any] | None = None) -> None:
        if function is not None and not callable(function):
            raise OptionError(
                f"`synchronize` is {function!r}; it must be a function without "
                "arguments that returns when the device is done, or None."
            )
        self._function = function

    def check(self, result: Any) -> None:
        """Raises `DeviceError` if `result` is on a device that cannot be waited for."""
        if self._function is not None:
            return
        for leaf in _leaves(result):
            if (device := _unknown_device(leaf)) is not None:
                raise DeviceError(
                    f"`step` works on {device}, which echobuf cannot wait for, so its "
                    "time cannot be told; wait for the device inside `step` and return "
                    "nothing of it, or give `echobuf.analyze` a `synchronize=`, a "
                    "function that returns when the device is done."
                )

    def wait(self, result: Any) -> None:
        """Returns when the devices are done.

        Args:
            result: what the step returned.
        """
        if self._function is not None:
            self._function()
            return
        for device in _torch_devices():
            device.synchronize()
        jax = sys.modules.get("jax")
        if jax is not None and hasattr(jax, "live_arrays"):
            _wait_for_jax(jax, result)
        if _has_cupy():
            sys.modules["cupy"].cuda.Device().synchronize()


def _torch_devices() -> list[Any]:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda"):
        return []
    found = []
    for name in ("cuda", "xpu"):
        module = getattr(torch, name, None)
        if module is not None and module.is_initialized():
            found.append(module)
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        found.append(torch.mps)
    return found


def _wait_for_jax(jax: Any, result: Any) -> None:
    """Where the step returns nothing, all arrays that live are waited for."""
    mine = [leaf for leaf in _leaves(result) if isinstance(leaf, jax.Array)]
    for array in mine or jax.live_arrays():
        if not array.is_deleted():
            array.block_until_ready()


def _has_cupy() -> bool:
    cupy = sys.modules.get("cupy")
    try:
        return cupy is not None and cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:  # no driver
        return False


def _leaves(tree: Any) -> list[Any]:
    return optree.tree_leaves(tree, namespace=NAMESPACE)


def _unknown_device(leaf: Any) -> str | None:
    """The device of a leaf, in words, if it is one that cannot be waited for."""
    package = type(leaf).__module__.partition(".")[0]
    tensor: Any = getattr(sys.modules.get("torch"), "Tensor", ())
    if isinstance(leaf, tensor):
        kind = leaf.device.type
        return None if kind in _OF_TORCH else f"a {kind} device with torch"
    if package not in _KNOWN and _is_elsewhere(leaf):
        return f"a device with {package}"
    return None


def _is_elsewhere(leaf: Any) -> bool:
    ask = getattr(leaf, "__dlpack_device__", None)
    if ask is not None:
        try:
            return int(ask()[0]) not in _ON_CPU
        except Exception:
            return False
    return any(name in str(getattr(leaf, "device", "")) for name in ("GPU", "TPU"))
