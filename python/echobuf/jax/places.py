"""Where batches go: a device or a sharding of JAX's, and the buffer's device for it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import jax

from echobuf.errors import DeviceError, OptionError


@dataclass(frozen=True)
class Place:
    """Where batches go.

    Attributes:
        buffer_device: the buffer's `device`.
        target: a device or a sharding of JAX's, or a pytree of shardings; None: where
            they are drawn.
    """

    buffer_device: str
    target: Any = None


def find_place(device: Any, sharding: Any) -> Place:
    """Reads the arguments `device` and `sharding` of the loader.

    Raises:
        OptionError: neither is what it may be, or both are given.
        DeviceError: JAX has no such device.
    """
    if sharding is not None:
        if device not in (None, "cpu"):
            raise OptionError(
                f"`device` is {device!r} and `sharding` is given, too, which says the "
                "devices; leave `device` out."
            )
        _check_shardings(sharding)
        return Place("cpu", sharding)
    if isinstance(device, jax.Device):
        return _place_of(device)
    if isinstance(device, jax.sharding.Sharding):
        raise OptionError(
            f"`device` is {device!r}; give a sharding as `sharding=`, or a device."
        )
    if device is None:
        device = "cpu"
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        _check_cuda(device)
    return Place(device)


def _place_of(device: jax.Device) -> Place:
    if device.process_index != jax.process_index():
        raise DeviceError(
            f"`device` is {device}, which belongs to process {device.process_index}; "
            f"this is process {jax.process_index()}: give one of `jax.local_devices()`."
        )
    if device.platform in ("gpu", "cuda"):
        return Place(f"cuda:{device.local_hardware_id}", device)
    return Place("cpu", device)


def _check_cuda(device: str) -> None:
    """JAX must have the device that the buffer draws on."""
    from echobuf.cuda.device import is_simulated

    if is_simulated():
        return
    devices: list[Any] = []
    why = f"this JAX ({jax.__version__}) sees no CUDA device"
    with contextlib.suppress(RuntimeError):
        devices = jax.devices("cuda")
    if not devices:
        raise DeviceError(
            f"`device` is {device!r}, but {why}: install one that can "
            "(pip install 'jax[cuda13]'), or use device='cpu'."
        )


def _check_shardings(shardings: Any) -> None:
    leaves = jax.tree_util.tree_leaves(shardings)
    for leaf in leaves:
        if not isinstance(leaf, jax.sharding.Sharding):
            raise OptionError(
                f"`sharding` has {leaf!r}; it must be a jax.sharding.Sharding, or a "
                "pytree of them like a batch."
            )
    if not leaves:
        raise OptionError(f"`sharding` is {shardings!r}, which has no sharding in it.")
