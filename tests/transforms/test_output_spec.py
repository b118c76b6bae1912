"""Batches of chains: shapes, dtypes, memory, `repr` and states."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from echobuf import EchoBuffer, Field, SpecError, StateError
from echobuf import transforms as T
from transform_engine import drawn

IMAGE = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(8, 6, 3)
CHAIN = [
    T.RandomResizedCrop((5, 4)),
    T.RandomHorizontalFlip(),
    T.ToDtype("bfloat16", scale=True),
    T.Normalize(0.5, 0.25),
    T.ToChannelFirst(),
]


def test_shapes_and_dtypes_become_the_batchs() -> None:
    [batch] = drawn([{"x": IMAGE}] * 2, {"x": CHAIN})
    assert batch["x"].shape == (2, 3, 5, 4)
    assert batch["x"].dtype == ml_dtypes.bfloat16
    assert batch["x"].flags.c_contiguous
    assert batch["x"].ctypes.data % 64 == 0


@pytest.mark.parametrize(
    ("chain", "shape", "dtype"),
    [
        ([T.CenterCrop((3, 2))], (3, 2, 3), "uint8"),
        ([T.ToChannelFirst()], (3, 8, 6), "uint8"),
        ([T.Resize(3)], (4, 3, 3), "uint8"),
        ([T.Resize(12, max_size=13)], (13, 9, 3), "uint8"),
        ([T.RandomCrop(9, pad_if_needed=True), T.ToDtype(np.float16)], (9, 9, 3), "f2"),
        ([T.ToChannelFirst(), T.RandomCrop(2), T.Layout("CHW")], (3, 2, 2), "uint8"),
        ([T.Layout("CHW"), T.CenterCrop((6, 1))], (8, 6, 1), "uint8"),
        ([], (8, 6, 3), "uint8"),
        ([T.Layout("HWC")], (8, 6, 3), "uint8"),
    ],
)
def test_operations_make_these_shapes_and_dtypes(
    chain: Any, shape: Any, dtype: str
) -> None:
    [batch] = drawn([{"x": IMAGE}], {"x": chain}, batch_size=1)
    assert batch["x"].shape == (1, *shape)
    assert batch["x"].dtype == np.dtype(dtype)


def test_gray_images_and_numbers() -> None:
    example = {"gray": IMAGE[..., 0], "number": np.int16(-7)}
    chains = {
        "gray": [T.CenterCrop(4), T.ToChannelFirst()],
        "number": [T.ToDtype(np.float32)],
    }
    [batch] = drawn([example], chains, batch_size=1)
    np.testing.assert_array_equal(batch["gray"][0, 0], IMAGE[2:6, 1:5, 0])
    assert batch["number"].tolist() == [-7.0]


class Pair(NamedTuple):
    image: Any
    label: Any


@pytest.mark.parametrize(
    ("spec", "transform"),
    [
        (IMAGE, [T.CenterCrop(2)]),
        (IMAGE, T.CenterCrop(2)),
        (IMAGE, {(): [T.CenterCrop(2)]}),
        ((IMAGE, np.int64(3)), {0: [T.CenterCrop(2)]}),
        (Pair(IMAGE, np.int64(3)), {0: [T.CenterCrop(2)]}),
        ([np.int64(3), (IMAGE,)], {(1, 0): [T.CenterCrop(2)]}),
        ({"a": {"b": IMAGE}}, {"a": {"b": [T.CenterCrop(2)]}}),
        ({"a": {"b": IMAGE}}, {("a", "b"): (T.CenterCrop(2),)}),
        ({"a": [{"b": IMAGE}]}, {"a": {0: {"b": [T.CenterCrop(2)]}}}),
    ],
)
def test_leaves_of_any_tree(spec: Any, transform: Any) -> None:
    options = {"batch_size": 1, "window": 1, "factor": 1}
    with EchoBuffer(spec, transform=transform, **options) as buffer:
        buffer.put(spec)
        batch = buffer.next_batch()
    assert type(batch) is (np.ndarray if spec is IMAGE else type(spec))
    leaves = _leaves(batch)
    assert any(np.array_equal(leaf[0], IMAGE[3:5, 2:4]) for leaf in leaves)


def _leaves(tree: Any) -> list[np.ndarray]:
    if isinstance(tree, np.ndarray):
        return [tree]
    values = tree.values() if isinstance(tree, dict) else tree
    return [leaf for value in values for leaf in _leaves(value)]


def buffer_of(chain: Any, **options: Any) -> EchoBuffer:
    options = {"batch_size": 2, "window": 4} | options
    return EchoBuffer({"x": Field((8, 6, 3), np.uint8)}, transform=chain, **options)


def test_the_buffer_shows_its_chains() -> None:
    shown = repr(buffer_of({"x": CHAIN}))
    assert "RandomResizedCrop(size=(5, 4)" in shown
    assert "-> {'x': bfloat16[3, 5, 4]}" in shown
    assert "transform" not in repr(buffer_of(None))


@pytest.mark.parametrize("other", [None, {}, {"x": [T.CenterCrop(3)]}])
def test_a_state_of_another_transform(other: Any) -> None:
    state = buffer_of({"x": [T.CenterCrop(2)]}).state_dict()
    with pytest.raises(StateError, match="`transform`"):
        buffer_of(other).load_state_dict(state)
    buffer_of({"x": [T.CenterCrop(2)]}).load_state_dict(state)


@pytest.mark.parametrize("out", [Field((2, 8, 6, 3), "u1"), Field((2, 3, 5, 4), "f2")])
def test_out_is_as_the_batch_not_as_the_spec(out: Field) -> None:
    with buffer_of({"x": CHAIN}) as buffer, pytest.raises(SpecError, match="out"):
        buffer.next_batch(out={"x": np.empty(out.shape, out.dtype)}, timeout=0)


def test_a_tail_and_without_one() -> None:
    examples = [{"x": IMAGE}] * 5
    sizes = [len(batch["x"]) for batch in drawn(examples, {"x": CHAIN}, batch_size=3)]
    assert sizes == [3, 2]
    kept = drawn(examples, {"x": CHAIN}, batch_size=3, drop_last=True)
    assert [len(batch["x"]) for batch in kept] == [3]


def test_with_the_factor_auto() -> None:
    examples = [{"x": IMAGE}] * 40
    options = {"factor": "auto", "window": 8, "batch_size": 4}
    batches = drawn(examples, {"x": [T.RandomCrop(3)]}, **options)
    assert sum(len(batch["x"]) for batch in batches) >= 40
    windows = np.lib.stride_tricks.sliding_window_view(IMAGE, (3, 3, 3))
    for batch in batches:
        for crop in batch["x"]:
            assert (windows == crop).all(axis=(-1, -2, -3)).any()


def test_past_the_caches() -> None:
    """Batches of 4 MiB and more are written with other stores."""
    image = np.random.default_rng(0).integers(0, 256, (256, 300, 3), np.uint8)
    for chain in (
        [T.ToDtype("float32"), T.ToChannelFirst()],
        [T.ToDtype("float16"), T.RandomHorizontalFlip(1.0), T.ToChannelFirst()],
        [T.RandomVerticalFlip(1.0), T.ToDtype("float32"), T.RandomGain(0, 0)],
    ):
        large, small = (
            drawn([{"x": image}] * count, {"x": chain}, batch_size=count)[0]["x"][0]
            for count in (16, 1)
        )
        np.testing.assert_array_equal(large, small)
        assert large.astype(np.float32).std() > 70
