"""Leaves of batches as `jax.Array`s.

JAX takes arrays for immutable and runs asynchronously: memory that it has been given
must not change, nor be used again, before JAX has let go of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from echobuf.tree import Spec

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
