"""JAX's copies of arrays on a CUDA device; NumPy's stand for CuPy's."""

import contextlib
import gc
import weakref

import jax
import numpy as np
import pytest

from echobuf.jax.arrays import FromCupy
from helpers import until

STREAM = 7


@pytest.fixture
def convert(monkeypatch):
    """A converter, and JAX's import of arrays as it is for CUDA."""
    imported = jax.dlpack.from_dlpack
    current = []

    def from_dlpack(leaf, *, copy=None):
        if copy:
            raise RuntimeError("UNIMPLEMENTED: copy=True")
        assert current == [STREAM]  # the draw is waited for on this one
        return imported(leaf)

    @contextlib.contextmanager
    def on_stream(stream):
        current.append(stream)
        yield
        current.pop()

    monkeypatch.setattr(jax.dlpack, "from_dlpack", from_dlpack)
    return FromCupy(on_stream)


def test_arrays_are_copies(convert):
    leaves = [np.arange(64, dtype=np.float32), np.ones((2, 3), np.int32)]
    arrays = convert(leaves, STREAM)
    jax.block_until_ready(arrays)
    for leaf in leaves:
        leaf[...] = 0
    np.testing.assert_array_equal(arrays[0], np.arange(64))
    np.testing.assert_array_equal(arrays[1], np.ones((2, 3)))


def test_leaves_are_kept_until_their_copies_are_done(convert, monkeypatch):
    ready = False
    monkeypatch.setattr("echobuf.jax.arrays._is_ready", lambda array: ready)
    leaves = [np.full(8, number) for number in range(5)]
    kept = [weakref.ref(leaf) for leaf in leaves]
    while leaves:
        jax.block_until_ready(convert([leaves.pop()], STREAM))
    gc.collect()
    assert all(leaf() is not None for leaf in kept)
    ready = True
    last = np.full(8, 5)
    last_kept = weakref.ref(last)
    jax.block_until_ready(convert([last], STREAM))
    del last
    gc.collect()
    until(lambda: all(leaf() is None for leaf in kept))
    assert last_kept() is not None
