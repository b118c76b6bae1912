"""`echobuf.jax.EchoLoader`: the batches of `echobuf.EchoLoader`, as JAX's arrays."""

import dataclasses
import json
from collections import Counter, OrderedDict
from typing import Any, NamedTuple

import equinox
import flax.struct
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch
from flax import nnx
from flax.core import FrozenDict
from torch.utils.data import DataLoader

import echobuf
import echobuf.jax
from echobuf import transforms
from helpers import on_device

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]

OPTIONS: dict[str, Any] = {"batch_size": 8, "window": 24, "factor": 3, "seed": 3}


def items(n=61):
    return [
        {"x": np.full((3, 2), i, np.float32), "more": (np.int32(i), [np.uint8([i])])}
        for i in range(n)
    ]


def as_numpy(batches):
    return [jax.tree_util.tree_map(np.asarray, batch) for batch in batches]


def assert_same(one, other):
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        assert jax.tree_util.tree_structure(left) == jax.tree_util.tree_structure(right)
        jax.tree_util.tree_map(np.testing.assert_array_equal, left, right)


@pytest.mark.parametrize(
    "more", [{}, {"prefetch": 2}, {"drop_last": True}, {"factor": 2.5, "batch_size": 6}]
)
def test_batches_are_those_without_jax(more):
    options = OPTIONS | more
    loader = echobuf.jax.EchoLoader(items(), **options)
    plain = echobuf.EchoLoader(items(), **options)
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == len(loader)
        for batch in batches:
            for leaf in jax.tree_util.tree_leaves(batch):
                assert isinstance(leaf, jax.Array)
        assert_same(as_numpy(batches), as_numpy(plain))


def test_every_example_is_served_as_often_as_factor_says():
    loader = echobuf.jax.EchoLoader(items(), **OPTIONS)
    uses = Counter(int(i) for batch in loader for i in batch["more"][0])
    assert uses == dict.fromkeys(range(61), 3)


@pytest.mark.host
def test_memory_is_shared_and_aligned():
    loader = echobuf.jax.EchoLoader(items(), **OPTIONS)
    seen = set()
    for batch in loader:
        pointers = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(batch)]
        assert all(pointer % 64 == 0 for pointer in pointers)
        assert max(pointers) - min(pointers) < 4096, "of one block"
        seen.add(pointers[0])
    assert len(seen) < 8, "memory is used again"


@pytest.mark.host
def test_whole_batches_may_be_shorter():
    batches = [{"x": np.arange(n)} for n in (4, 4, 3)]
    loader = echobuf.jax.EchoLoader(batches, unit="batch", window=2, factor=2)
    assert sorted(len(batch["x"]) for batch in loader) == [3, 3, 4, 4, 4, 4]


DTYPES = [
    np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32,
    np.float16, np.float32, np.complex64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_stay(dtype):
    examples = [np.array([i % 2, 1, 0], dtype) for i in range(8)]
    loader = echobuf.jax.EchoLoader(examples, batch_size=4, window=8, factor=1)
    for batch in loader:
        assert batch.dtype == np.dtype(dtype)
        assert (np.asarray(batch)[:, 1:] == np.array([1, 0], dtype)).all()


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, np.complex128])
def test_64_bits_are_as_jax_has_them(dtype, enabled):
    examples = [{"x": np.array(i, dtype)} for i in range(8)]
    with jax.enable_x64(enabled):
        loader = echobuf.jax.EchoLoader(examples, batch_size=4, window=8, factor=1)
        batches = list(loader)
        want = jnp.asarray(np.zeros(1, dtype)).dtype
    assert {batch["x"].dtype for batch in batches} == {want}
    assert sorted(int(i.real) for batch in batches for i in batch["x"]) == [*range(8)]


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Example:
    """Leaves in an order of their own, and what is no leaf."""

    z: Any
    a: Any
    name: str = dataclasses.field(metadata={"static": True}, default="kept")


class Module(equinox.Module):
    inner: Example
    weights: dict[str, Any]
    nothing: None = None
    title: str = equinox.field(static=True, default="module")


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Other:
    """Several of one kind, side by side."""

    left: Any
    right: Any


@flax.struct.dataclass
class OfFlax:
    """Has a field that is no data."""

    x: Any
    rate: float = flax.struct.field(pytree_node=False, default=0.5)


class Pair(NamedTuple):
    first: Any
    second: Any


def structures(i):
    example = Example(np.int32(i), np.full(2, i, np.float32))
    yield example
    yield Module(example, {"b": jnp.asarray([i, i]), "a": np.float32(i)})
    yield Pair([Example(np.int32(i), np.int32(i))], (np.uint8([i]),))
    yield OrderedDict(z=np.int32(i), a=Module(example, {}))
    yield np.float32(i)
    yield {"a": Other(example, example), "b": Other(example, np.int32(i))}
    yield FrozenDict(a=OfFlax(np.int32(i)), b=OfFlax(np.full(3, i, np.uint8)))
    yield nnx.State({"layer": {"w": np.full(2, i, np.float32)}})


@pytest.mark.parametrize("which", range(8))
@pytest.mark.parametrize("batched", [False, True])
def test_structures_are_jaxs(which, batched):
    examples = [[*structures(i)][which] for i in range(16)]
    stacked = [
        jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *examples[at : at + 4])
        for at in range(0, 16, 4)
    ]
    loader = echobuf.jax.EchoLoader(
        stacked if batched else examples,
        batched=batched, batch_size=4, window=8, factor=2,
    )  # fmt: skip
    like = jax.tree_util.tree_structure(examples[0])
    batches = list(loader)
    assert [jax.tree_util.tree_structure(batch) for batch in batches] == [like] * 8
    for batch in as_numpy(batches):
        rows = [
            np.reshape(leaf, (4, -1))[:, 0] for leaf in jax.tree_util.tree_leaves(batch)
        ]
        assert (np.stack(rows) == rows[0]).all()


def test_an_item_of_another_structure_is_refused():
    examples = [Example(np.int32(i), np.int32(i)) for i in range(4)]
    examples[2] = Example(np.int32(2), np.int32(2), name="another")
    loader = echobuf.jax.EchoLoader(examples, batch_size=2, window=4, factor=1)
    with pytest.raises(echobuf.SpecError, match="item 2 of upstream"):
        list(loader)


def test_chains_are_told_by_the_names_of_fields():
    images = [Example(np.full((4, 4, 3), i, np.uint8), np.int32(i)) for i in range(12)]
    chain = [transforms.RandomCrop(3), transforms.ToDtype(np.float32)]
    loader = echobuf.jax.EchoLoader(
        images, batch_size=4, window=8, factor=2, transform={"z": chain}
    )
    for batch in loader:
        assert batch.z.shape == (4, 3, 3, 3)
        assert batch.z.dtype == jnp.float32
        assert (batch.z[:, 0, 0, 0] == batch.a).all()


def test_functions_on_batches_get_jaxs_arrays():
    def double(leaf):
        assert isinstance(leaf, jax.Array)
        return leaf * 2

    examples = [{"x": np.int64(i), "y": np.float32(i)} for i in range(12)]
    chain = [transforms.Lambda(double)]
    loader = echobuf.jax.EchoLoader(
        examples, batch_size=4, window=8, factor=2, transform={"x": chain}
    )
    for batch in loader:
        assert (batch["x"] == 2 * batch["y"]).all()


def test_a_data_loader_is_taken_as_it_is():
    data = [{"x": torch.full((2,), float(i)), "y": i} for i in range(20)]
    upstream = DataLoader(data, batch_size=4)
    loader = echobuf.jax.EchoLoader(upstream, window=8, factor=2)
    assert len(loader) == 10
    uses = Counter(int(i) for batch in loader for i in batch["y"])
    assert uses == dict.fromkeys(range(20), 2)


def test_resumed_in_the_middle_of_an_epoch():
    options = OPTIONS | {"batch_size": 7}
    loader = echobuf.jax.EchoLoader(items(), **options)
    whole = as_numpy(loader)
    loader.set_epoch(0)
    epoch = iter(loader)
    for _ in range(5):
        next(epoch)
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = echobuf.jax.EchoLoader(items(), **options)
    resumed.load_state_dict(state)
    assert_same(as_numpy(resumed), whole[5:])


@pytest.mark.host
@pytest.mark.parametrize("number", [0, 5])
def test_on_the_device_asked_for(number):
    device = jax.devices("cpu")[number]
    loader = echobuf.jax.EchoLoader(items(), device=device, **OPTIONS)
    plain = echobuf.EchoLoader(items(), **OPTIONS)
    batches = list(loader)
    for leaf in jax.tree_util.tree_leaves(batches):
        assert leaf.devices() == {device}
    assert_same(as_numpy(batches), as_numpy(plain))


def test_trains_under_jit():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype(np.float32)
    truth = np.float32([1, -2, 0.5])
    examples = [{"x": row, "y": row @ truth} for row in x]

    @jax.jit
    def step(weights, batch):
        def loss(weights):
            return ((batch["x"] @ weights - batch["y"]) ** 2).mean()

        return weights - 0.1 * jax.grad(loss)(weights)

    weights = jnp.zeros(3)
    if on_device():
        weights = jax.device_put(weights, jax.devices("cpu")[0])
    loader = echobuf.jax.EchoLoader(examples, **OPTIONS)
    for _ in range(4):
        for batch in loader:
            weights = step(weights, batch)
    np.testing.assert_allclose(weights, truth, atol=1e-2)


def test_containers_registered_with_jax_are_known_to_other_loaders():
    @flax.struct.dataclass
    class Late:
        x: Any
        name: str = flax.struct.field(pytree_node=False, default="kept")

    examples = [Late(np.int32(i)) for i in range(8)]
    arguments = {"batch_size": 4, "window": 8, "factor": 1}
    for kind in (echobuf.EchoLoader, echobuf.jax.EchoLoader):
        for batch in kind(examples, **arguments):
            assert type(batch) is Late
            assert batch.name == "kept"
            assert batch.x.shape == (4,)
