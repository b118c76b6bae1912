"""Placement of batches on devices and shardings of JAX."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import jax

from echobuf.errors import DeviceError, OptionError
from echobuf.jax.arrays import Convert
from echobuf.tree import Spec


@dataclass(frozen=True)
class Placement:
    """The placement of batches.

    Attributes:
        buffer_device: the buffer's `device`.
        target: a device or a sharding of JAX, or a pytree of shardings; None: the
            device that batches are drawn on.
    """

    buffer_device: str
    target: Any = None


def find_placement(device: Any, sharding: Any) -> Placement:
    """Read the arguments `device` and `sharding` of the loader.

    Raises:
        OptionError: one of them is no device or sharding, or both are given.
        DeviceError: JAX has no such device.
    """
    if sharding is not None:
        if device not in (None, "cpu"):
            raise OptionError(
                f"`device` is {device!r} and `sharding` is given, too, which says the "
                "devices; leave `device` out."
            )
        _check_shardings(sharding)
        return Placement("cpu", sharding)
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
    return Placement(device)


def _place_of(device: jax.Device) -> Placement:
    if device.process_index != jax.process_index():
        raise DeviceError(
            f"`device` is {device}, which belongs to process {device.process_index}; "
            f"this is process {jax.process_index()}: give one of `jax.local_devices()`."
        )
    if device.platform in ("gpu", "cuda"):
        return Placement(f"cuda:{device.local_hardware_id}", device)
    return Placement("cpu", device)


def _check_cuda(device: str) -> None:
    """Raise `DeviceError` if JAX lacks the device that the buffer draws on."""
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


_DOES_NOT_FIT = (ValueError, IndexError, AssertionError)  # what JAX raises


def to_global(sharding: Any, spec: Spec, lead: tuple[int, ...]) -> Convert:
    """Return a converter of NumPy leaves to global arrays.

    On the CPU JAX shares their memory.

    Args:
        sharding: of all leaves, or a pytree of shardings that is a prefix of a batch.
        spec: of one example as batches have it, or of one whole batch.
        lead: extents before the shape that the spec says, in this process.

    Raises:
        OptionError: the sharding is not like a batch, or does not divide it.
    """
    shardings = _per_leaf(sharding, spec)
    if jax.process_count() == 1:
        for one, field, path in zip(shardings, spec.fields, spec.paths, strict=True):
            _check_divides(one, lead + field.shape, path)

    def convert(leaves: list[Any]) -> list[Any]:
        return [
            _make(one, leaf, path)
            for one, leaf, path in zip(shardings, leaves, spec.paths, strict=True)
        ]

    return convert


def _make(sharding: Any, leaf: Any, path: str) -> jax.Array:
    try:
        made: jax.Array = jax.make_array_from_process_local_data(  # type: ignore[no-untyped-call]
            sharding, leaf
        )
        return made
    except _DOES_NOT_FIT as error:
        raise _refusal(leaf.shape, path, error) from error


def _check_divides(sharding: Any, shape: tuple[int, ...], path: str) -> None:
    try:
        sharding.shard_shape(shape)
    except _DOES_NOT_FIT as error:
        raise _refusal(shape, path, error) from error


def _refusal(shape: tuple[int, ...], path: str, error: Exception) -> OptionError:
    return OptionError(
        f"`sharding` does not divide `batch{path}`, {list(shape)} in this process: "
        f"{str(error).rstrip('.')}. Make `batch_size` a multiple of what it divides "
        "axis 0 into, and leave a shorter last batch out with drop_last=True."
    )


def _per_leaf(sharding: Any, spec: Spec) -> list[Any]:
    found: dict[int, Any] = {}

    def note(one: Any, below: Any) -> None:
        for number in jax.tree_util.tree_leaves(below):
            found[number] = one

    numbers = spec.treespec.unflatten(range(len(spec.fields)))
    try:
        jax.tree_util.tree_map(
            note,
            sharding,
            numbers,
            is_leaf=lambda node: isinstance(node, jax.sharding.Sharding),
        )
    except ValueError as error:
        raise OptionError(
            f"`sharding` is no prefix of a batch: {str(error).rstrip('.')}."
        ) from error
    return [found[number] for number in range(len(spec.fields))]
