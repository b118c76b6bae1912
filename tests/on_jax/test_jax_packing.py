"""Packed rows as `jax.Array`s: few shapes, and attention within examples alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import echobuf
import echobuf.jax

pytestmark = pytest.mark.contract

LENGTHS = [1 + number * 7 % 13 for number in range(120)]
EXAMPLES = [
    np.arange(length, dtype=np.float32) + number
    for number, length in enumerate(LENGTHS)
]
KWARGS = {"batch_size": 4, "window": 32, "factor": 2, "pack_to": 16, "seed": 1}


@pytest.mark.parametrize("drop_last", [True, False])
def test_a_step_is_compiled_once_and_once_more_for_a_last_batch(drop_last):
    shapes = []

    @jax.jit
    def total(packed):
        shapes.append(packed.values.shape)  # once for each shape
        return jnp.where(packed.segment_ids > 0, packed.values, 0).sum()

    loader = echobuf.jax.EchoLoader(EXAMPLES, drop_last=drop_last, **KWARGS)
    sums, batches = [], []
    for batch in loader:
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(batch))
        sums.append(float(total(batch)))
        batches.append(batch)
    loader.close()
    assert len(batches) > 20
    assert len(shapes) == len(set(shapes))
    assert shapes[0] == (4, 16)
    assert len(shapes) == (1 if drop_last else 2)
    if not drop_last:
        whole = 2 * sum(float(example.sum()) for example in EXAMPLES)
        assert sum(sums) == pytest.approx(whole)


def test_a_mask_of_segment_ids_keeps_examples_apart():
    """The attention of a row is that of its examples alone, one after the other."""

    @jax.jit
    def attend(x, mask):
        scores = jnp.where(mask, x[:, None] * x[None, :] / 100, -jnp.inf)
        return jnp.nan_to_num(jax.nn.softmax(scores, axis=-1)) @ x

    loader = echobuf.jax.EchoLoader(EXAMPLES, **KWARGS)
    batch = next(iter(loader))
    loader.close()
    ids = batch.segment_ids
    mask = (ids[:, :, None] == ids[:, None, :]) & (ids > 0)[:, :, None]
    mask &= jnp.tril(jnp.ones(mask.shape[1:], bool))
    rows = jax.vmap(attend)(batch.values, mask)
    arrays = (np.asarray(array) for array in (rows, batch.values, ids))
    for row, values, segments in zip(*arrays, strict=True):
        for segment in range(1, int(segments.max()) + 1):
            at = np.flatnonzero(segments == segment)
            alone = attend(values[at], np.tril(np.ones((len(at), len(at)), bool)))
            np.testing.assert_allclose(row[at], alone, rtol=1e-5)
    assert int(ids.max()) > 1
