"""Memory that JAX has is not used again before JAX has let go of it."""

import contextlib
import gc
import itertools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import echobuf
import echobuf.jax
from echobuf.jax import arrays
from echobuf.loader.loader import internals_of
from echobuf.loader_buffer import LoaderBuffer

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

COLUMNS = 4096


def endless():
    for number in itertools.cycle(range(1000)):
        yield {"x": np.full(COLUMNS, number, np.float32), "id": np.int32(number)}


@pytest.fixture
def batches():
    with begun() as epoch:
        yield epoch


def make():
    return echobuf.jax.EchoLoader(endless(), batch_size=16, window=64, factor=2)


@contextlib.contextmanager
def begun():
    loader = make()
    epoch = iter(loader)
    try:
        yield epoch
    finally:
        epoch.supersede()


def later(x):
    """x, after a tenth of a second: it is read last."""
    grows = jax.lax.fori_loop(0, 100, lambda _, m: m @ m, jnp.eye(400))
    return x + (grows[0, 0] - 1)


reads = jax.jit(later)
takes_over = jax.jit(later, donate_argnums=0)


def begin(how, batch):
    """A computation on the batch that runs on while the batch is gone."""
    result = (takes_over if how == "donated" else reads)(batch["x"])
    if how == "deleted":
        batch["x"].delete()
        batch["id"].delete()
    return result


def draw_until(done, batches):
    """Draws, and drops, until somebody else's work is done."""
    count = 0
    while not done():
        next(batches)
        count += 1
    return count


@pytest.mark.parametrize("how", ["dropped", "deleted", "donated"])
def test_computations_under_way_keep_their_batch(batches, how):
    reads(next(batches)["x"]).block_until_ready()  # compiled
    takes_over(next(batches)["x"]).block_until_ready()
    rounds = meanwhile = 0
    while rounds < 3 or meanwhile <= 3:  # a slow machine may come too late to draw
        rounds += 1
        batch = next(batches)
        numbers = np.array(batch["id"], np.float32)
        result = begin(how, batch)
        del batch
        gc.collect()
        meanwhile += draw_until(result.is_ready, batches)
        np.testing.assert_array_equal(result, np.tile(numbers[:, None], COLUMNS))


def test_another_thread_may_wait(batches):
    reads(next(batches)["x"]).block_until_ready()
    for _ in range(3):
        batch = next(batches)
        numbers = np.array(batch["id"], np.float32)
        result = reads(batch["x"])
        del batch
        waits = threading.Thread(target=jax.block_until_ready, args=(result,))
        waits.start()
        draw_until(lambda: not waits.is_alive(), batches)  # noqa: B023
        np.testing.assert_array_equal(result, np.tile(numbers[:, None], COLUMNS))


def test_the_test_finds_memory_that_is_used_too_soon(monkeypatch):
    """The same with a batch that is overwritten while JAX has it."""

    class Careless:
        memory = None

        def __call__(self, leaves):
            arrays = [np.from_dlpack(leaf) for leaf in leaves]
            if self.memory is None:
                self.memory = [aligned(array) for array in arrays]
            for mine, theirs in zip(self.memory, arrays, strict=True):
                mine[...] = theirs
            return [jax.dlpack.from_dlpack(mine) for mine in self.memory]

    monkeypatch.setattr(arrays, "from_exported", lambda target: Careless())
    with begun() as batches:
        reads(next(batches)["x"]).block_until_ready()
        meanwhile = 0
        while meanwhile == 0:
            batch = next(batches)
            numbers = np.array(batch["id"], np.float32)
            result = reads(batch["x"])
            meanwhile = draw_until(result.is_ready, batches)
    assert (np.asarray(result) != numbers[:, None]).any()


def aligned(array):
    """Memory for such an array that JAX shares."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + array.nbytes].view(array.dtype).reshape(array.shape)


def test_memory_comes_back(batches):
    """As many blocks as are held, and the one that is kept for the next batch."""
    held = [next(batches) for _ in range(20)]
    blocks = {batch["x"].unsafe_buffer_pointer() for batch in held}
    assert len(blocks) == 20
    del held
    pointers = [next(batches)["x"].unsafe_buffer_pointer() for _ in range(50)]
    assert len(set(pointers)) <= 3


def test_one_leaf_keeps_the_block(batches):
    batch = next(batches)
    kept, numbers = batch["id"], np.array(batch["id"])
    where = batch["x"].unsafe_buffer_pointer()
    del batch
    gc.collect()
    others = [next(batches) for _ in range(5)]
    assert where not in [batch["x"].unsafe_buffer_pointer() for batch in others]
    np.testing.assert_array_equal(kept, numbers)


def test_arrays_outlive_the_loader():
    loader = make()
    batches = iter(loader)
    batch = next(batches)
    numbers = np.array(batch["id"], np.float32)
    batches.supersede()
    internals_of(loader).starter.buffer.__exit__(None, None, None)
    gc.collect()
    again = [bytearray(16 * COLUMNS * 4) for _ in range(4)]  # takes freed memory
    np.testing.assert_array_equal(batch["x"][:, 7], numbers)
    del again


def test_many_threads_drop_what_one_draws(batches):
    drops: list[threading.Thread] = []
    waiting: list[tuple[jax.Array, np.ndarray]] = []
    lock = threading.Lock()
    stop = threading.Event()
    wrong = []

    def drop():
        while not stop.is_set() or waiting:
            with lock:
                taken = waiting.pop() if waiting else None
            if taken is None:
                continue
            result, numbers = taken
            if not (np.asarray(result)[:, 5] == numbers).all():
                wrong.append(numbers)

    for _ in range(3):
        drops.append(threading.Thread(target=drop))
        drops[-1].start()
    for _ in range(600):
        batch = next(batches)
        with lock:
            waiting.append((batch["x"] * 1.0, np.array(batch["id"], np.float32)))
    stop.set()
    for thread in drops:
        thread.join()
    assert not wrong


def test_dlpack_capsules_nobody_takes_give_the_block_back():
    buffer = LoaderBuffer(
        echobuf.Field((1000,), np.float32),
        batch_size=4, window=8, factor="auto", max_factor=1000,
    )  # fmt: skip
    buffer.put_batch(np.zeros((8, 1000), np.float32))
    pointers = set()
    for _ in range(20):
        (leaf,) = buffer.core.next_exported(None)
        capsules = [leaf.__dlpack__(), leaf.__dlpack__(stream=None, max_version=(1, 0))]
        array = np.from_dlpack(leaf)
        assert leaf.__dlpack_device__() == (1, 0)
        pointers.add(array.ctypes.data)
        del capsules, leaf
        assert (array == 0).all()
        del array
    assert len(pointers) <= 2
