"""Leaves of batches as `jax.Array`s, and their placement on devices and shardings.

JAX takes arrays for immutable and runs asynchronously: memory that it has been given
must not change, nor be used again, before JAX has let go of it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from echobuf.errors import DeviceError, OptionError
from echobuf.spec import Spec

Convert = Callable[[list[Any]], list[Any]]


def from_exported(target: jax.Device | None) -> Convert:
    """Return a converter of leaves on the CPU that have `__dlpack__`.

    JAX shares their memory (but for 64-bit numbers where it has 64 bits disabled, which
    it makes 32 bits of) and lets go of it when its array and all computations that
    read it are done.

    Args:
        target: the device of the arrays; None: JAX's first CPU device.
    """
    take = jax.dlpack.from_dlpack
    if target is None or target == jax.local_devices(backend="cpu")[0]:
        return lambda leaves: [take(leaf) for leaf in leaves]
    return lambda leaves: jax.device_put([take(leaf) for leaf in leaves], target)


def exportable(spec: Spec) -> bool:
    """Return whether JAX takes leaves of these dtypes by DLPack.

    Some float8 are floating-point numbers for NumPy, too; JAX takes none of 8 bits.
    """
    return all(
        field.dtype.kind != "f" or field.dtype.itemsize > 1 for field in spec.fields
    )


def from_numpy(target: jax.Device | None) -> Convert:
    """Return a converter of NumPy arrays, for dtypes that DLPack lacks."""
    if target is None:
        target = jax.local_devices(backend="cpu")[0]
    return lambda leaves: jax.device_put(leaves, target)


def copies_of_numpy(leaves: list[Any], stream: int) -> list[Any]:
    """Copy NumPy views of memory that is reused once they are dropped.

    Args:
        leaves: views of memory that nothing writes any more.
        stream: ignored.
    """
    return from_numpy(None)([np.array(leaf) for leaf in leaves])


class FromCupy:
    """A converter of CuPy's arrays, which copies them into JAX's memory.

    JAX imports an array in the order of CuPy's current stream, which is therefore the
    one of the draw meanwhile, and copies it on the device, on another stream. (It
    cannot import and copy in one: UNIMPLEMENTED for CUDA.) Until the copy is done,
    CuPy's array is kept: the pool would give its memory to others, in the order of
    another stream.

    Args:
        on_stream: returns a context in which the stream with a handle is current.
    """

    def __init__(
        self, on_stream: Callable[[int], AbstractContextManager[None]]
    ) -> None:
        self._on_stream = on_stream
        self._copying: deque[tuple[list[jax.Array], list[Any]]] = deque()
        self._lock = threading.Lock()

    def __call__(self, leaves: list[Any], stream: int) -> list[Any]:
        """Return JAX's copies of leaves that were drawn on a stream."""
        with self._on_stream(stream):
            arrays = [jnp.copy(jax.dlpack.from_dlpack(leaf)) for leaf in leaves]
        with self._lock:
            copied = self._take_copied()
            self._copying.append((arrays, leaves))
        del copied  # without the lock
        return list(arrays)

    def _take_copied(self) -> list[Any]:
        """Take the leaves whose copies are done.

        Copies are done in the order in which they were begun. An array that the caller
        has deleted or donated cannot be asked: its copy is done when a later one is.
        """
        done = 0
        for number, (arrays, _) in enumerate(self._copying, start=1):
            states = [_is_ready(array) for array in arrays]
            if False in states:
                break
            if True in states:
                done = number
        return [self._copying.popleft() for _ in range(done)]


def _is_ready(array: jax.Array) -> bool | None:
    """Return whether an array is ready; None if it has been deleted."""
    try:
        return None if array.is_deleted() else bool(array.is_ready())  # type: ignore[attr-defined]
    except RuntimeError:  # in between, by another thread
        return None


def canonical(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return JAX's dtype for NumPy's: 32 bits for 64, where JAX has 64 disabled.

    Raises:
        TypeError: JAX does not have it.
    """
    return np.dtype(jnp.asarray(np.empty(0, dtype)).dtype)


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
