"""`echobuf.jax.EchoLoader` on a device: order, asynchrony, and memory given back."""

import os
import threading

import pytest

from gpu_records import ids_of, stack

pytestmark = pytest.mark.gpu


@pytest.fixture
def jax(cuda):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others are here
    import jax

    assert jax.devices("cuda"), "this JAX has no CUDA"
    return jax


def loader(device, count=320, **more):
    import echobuf.jax

    whole = stack(range(count))
    whole["id"] = whole["id"].astype("int32")  # JAX makes these of 64 bits
    items = [
        {
            "id": whole["id"][start : start + 32],
            "body": tuple(leaf[start : start + 32] for leaf in whole["body"]),
        }
        for start in range(0, count, 32)
    ]
    kwargs = {"batch_size": 16, "window": 96, "factor": 3, "seed": 9, **more}
    return echobuf.jax.EchoLoader(items, batched=True, device=device, **kwargs)


def host(jax, batch):
    return ids_of(jax.device_get(batch))


def test_arrays_come_in_the_order_of_the_cpu(jax):
    (device, *_) = jax.devices("cuda")
    here, there, named = loader("cpu"), loader("cuda"), loader(device)
    for _ in range(2):
        want = [host(jax, batch) for batch in here]
        for which in (there, named):
            got = []
            for batch in which:
                assert all(
                    leaf.devices() == {device} for leaf in jax.tree.leaves(batch)
                )
                got.append(host(jax, batch))
            assert got == want


def slow(jax):
    """A computation that reads its argument when the device comes to it."""
    import jax.numpy as jnp

    @jax.jit
    def total(delay, ids):
        delay = jax.lax.fori_loop(0, 200, lambda _, x: jnp.tanh(x @ x), delay)
        return ids.sum() + (delay[0, 0] * 0).astype(ids.dtype)

    return total, jnp.ones((1024, 1024))


@pytest.mark.parametrize("how", ["dropped", "deleted", "waited for elsewhere"])
def test_memory_is_not_used_again_before_jax_is_done(jax, how):
    total, delay = slow(jax)
    want = [sum(host(jax, batch)) for batch in loader("cpu", count=960)]
    sums, waiters = [], []
    for batch in loader("cuda", count=960):
        sums.append(total(delay, batch["id"]))
        if how == "deleted":
            jax.tree.map(lambda leaf: leaf.delete(), batch)
        if how == "waited for elsewhere":
            waiters.append(
                threading.Thread(target=jax.block_until_ready, args=(batch,))
            )
            waiters[-1].start()
        del batch
    assert [int(each) for each in sums] == want
    for waiter in waiters:
        waiter.join()


def test_donated_batches(jax):
    double = jax.jit(lambda body: body * 2, donate_argnums=0)
    for batch in loader("cuda"):
        numbers = jax.device_get(batch["id"])
        doubled = jax.device_get(double(batch["body"][0]))
        assert (doubled == 2 * stack(numbers)["body"][0]).all()


def test_memory_comes_back(jax, cuda):
    """Neither JAX's nor the buffer's grows from epoch to epoch."""
    import cupy

    device = jax.devices("cuda")[0]
    feed = loader("cuda")
    used = []
    for _ in range(6):
        for batch in feed:
            jax.block_until_ready(batch)
        del batch
        jax.effects_barrier()
        used.append(
            (
                device.memory_stats()["bytes_in_use"],
                cupy.get_default_memory_pool().total_bytes(),
            )
        )
    assert used[-1] == used[2]
