"""`analyze` of a step of JAX, which returns before it is done."""

import time

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from echobuf import analyze  # noqa: E402
from echobuf.analysis.step import wait_for_devices  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

LATER_S = 0.05


def late(x):
    time.sleep(LATER_S)
    return x


@jax.jit
def slow(batch):
    """A computation that takes a while, on JAX's own threads."""
    return jax.pure_callback(late, jax.ShapeDtypeStruct((), "float32"), batch.sum())


def test_arrays_that_the_step_returns_are_waited_for():
    batches = [np.ones((4, 3), np.float32)] * 20
    got = analyze(batches, slow, seconds=1).measurements
    assert got.step_s.mean >= LATER_S / 4


def test_a_step_that_returns_nothing_is_waited_for():
    state = {}

    def step(batch):
        state["loss"] = slow(batch)

    batches = [np.ones((4, 3), np.float32)] * 20
    got = analyze(batches, step, seconds=1).measurements
    assert got.step_s.mean >= LATER_S / 4


def test_donated_arrays_are_none_to_wait_for():
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    old = jnp.zeros(3)
    new = add(old)
    wait_for_devices({"old": old, "new": new})
    assert new.is_ready()


def test_upstream_of_arrays_of_jax():
    batches = [jnp.full((4, 3), number) for number in range(20)]
    kinds = set()

    def step(batch):
        kinds.add(isinstance(batch, jax.Array))
        time.sleep(0.001)
        return batch

    got = analyze(batches, step, seconds=0.5).measurements
    assert kinds == {True}
    assert got.batch_size == 4
