"""Leaves that are no arrays, beside arrays of JAX's, sharded ones too."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import echobuf.jax

ITEMS = [{"id": np.int32(i), "name": f"n{i}", "none": None} for i in range(32)]
KWARGS = {"batch_size": 4, "window": 8, "factor": 2}


def shards():
    mesh = Mesh(np.array(jax.devices("cpu")[:1]), ("data",))
    return NamedSharding(mesh, PartitionSpec("data"))


@pytest.mark.parametrize(
    "make",
    [
        dict,
        lambda: {"sharding": shards()},
    ],
    ids=["arrays", "sharded"],
)
@pytest.mark.parametrize("with_info", [False, True])
def test_objects_come_with_their_arrays(make, with_info):
    more = make()
    loader = echobuf.jax.EchoLoader(ITEMS, **KWARGS, **more, with_info=with_info)
    for drawn in loader:
        batch = drawn[0] if with_info else drawn
        assert isinstance(batch["id"], jax.Array)
        assert batch["name"] == [f"n{i}" for i in batch["id"]]
        assert batch["none"] == [None] * 4
        assert jax.tree.leaves({**batch, "name": None})[0] is batch["id"]


def test_a_tree_of_shardings_is_a_prefix_of_the_arrays():
    tree = {"id": shards(), "name": None, "none": None}
    for batch in echobuf.jax.EchoLoader(ITEMS, **KWARGS, sharding=tree):
        assert batch["name"] == [f"n{i}" for i in batch["id"]]


def test_without_carrying_none_has_no_leaves_as_in_jax():
    items = [{"id": np.int32(i), "none": None} for i in range(9)]
    loader = echobuf.jax.EchoLoader(items, **KWARGS, carry=False)
    assert next(iter(loader))["none"] is None
