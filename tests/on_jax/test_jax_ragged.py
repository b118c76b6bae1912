"""Batches of examples that differ in length as pytrees of `jax.Array`s."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import echobuf
import echobuf.jax

pytestmark = pytest.mark.contract

EXAMPLES = [
    {"ids": np.arange(n * 7 % 13, dtype=np.int32) + n, "label": np.float32(n)}
    for n in range(48)
]
KWARGS = {"batch_size": 8, "window": 16, "factor": 2, "payload_bytes": 3000}


def numbers_of(loader, kind):
    numbers = []
    for batch in loader:
        assert type(batch["ids"]) is kind
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(batch))
        for number, ids in zip(
            batch["label"].tolist(), batch["ids"].to_list(), strict=True
        ):
            np.testing.assert_array_equal(ids, EXAMPLES[int(number)]["ids"])
            numbers.append(int(number))
    return numbers


@pytest.mark.parametrize("ragged", ["packed", "padded"])
def test_batches_are_pytrees_of_arrays(ragged):
    kind = {"packed": echobuf.Ragged, "padded": echobuf.Padded}[ragged]
    loader = echobuf.jax.EchoLoader(EXAMPLES, ragged=ragged, **KWARGS)
    assert sorted(numbers_of(loader, kind)) == sorted([*range(48)] * 2)
    loader.close()


@pytest.mark.parametrize("ragged", ["packed", "padded"])
def test_pad_to_keeps_compilations_few(ragged):
    compiled = []

    @jax.jit
    def total(ids):
        compiled.append(ids[0].shape)  # once for each shape
        if isinstance(ids, echobuf.Padded):
            return jnp.where(ids.mask, ids.values, 0).sum()
        return jnp.where(
            jnp.arange(len(ids.values)) < ids.offsets[-1], ids.values, 0
        ).sum()

    def run(pad_to):
        compiled.clear()
        loader = echobuf.jax.EchoLoader(
            EXAMPLES, ragged=ragged, pad_to=pad_to, pad_value=-1, **KWARGS
        )
        sums = [int(total(batch["ids"])) for batch in loader]
        assert sum(sums) == 2 * sum(int(each["ids"].sum()) for each in EXAMPLES)
        return len(compiled)

    few, many = run(64), run(1)
    assert few <= 2
    assert many > few


@pytest.mark.host
def test_shardings_are_refused():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), "x")
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    loader = echobuf.jax.EchoLoader(EXAMPLES, sharding=sharding, **KWARGS)
    with pytest.raises(echobuf.OptionError, match="`sharding` is given"):
        iter(loader)
