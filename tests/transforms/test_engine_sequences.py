"""Sequences, signals and tokens through the engine and through the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import transforms as T
from transform_engine import Step, drawn, expected, rows
from transform_reference import Draw, masks, parameters

SEEDS = st.integers(0, 2**64 - 1)
SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


@st.composite
def windows(draw: st.DrawFn, shape: tuple[int, ...], most: int = 3) -> list[Step]:
    """Windows along the first and the last axis in turn."""
    left = list(shape)
    steps = []
    for _ in range(draw(st.integers(1, most))):
        axis = draw(st.sampled_from([0, -1]))
        left[axis] = draw(st.integers(1, left[axis]))
        steps.append(("RandomWindow", {"length": left[axis], "axis": axis}))
    return steps


def check(leaves: list[np.ndarray], steps: list[Step], seed: int, atol: float) -> None:
    made = rows(leaves, steps, factor=2, seed=seed)
    assert len(made) == 2 * len(leaves)
    for draw, (number, got) in enumerate(made):
        want = expected(leaves[number], steps, draw, seed=seed)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, atol=atol, rtol=1e-5)


@settings(max_examples=60)
@given(st.data(), SHAPES, SEEDS, st.sampled_from(["i8", "u1", "f2", "f4", "f8", "c8"]))
def test_windows(
    data: st.DataObject, shape: tuple[int, ...], seed: int, dtype: str
) -> None:
    leaf = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    check([leaf, leaf[::-1].copy()], data.draw(windows(shape)), seed, 0)


@settings(max_examples=60)
@given(st.data(), st.tuples(*[st.integers(2, 9)] * 2), SEEDS)
def test_signals(data: st.DataObject, shape: tuple[int, int], seed: int) -> None:
    steps = data.draw(windows(shape, most=2))
    random = np.random.default_rng(seed % 1000)
    leaves = list(random.random((3, *shape), np.float32))
    bands = {"freq_mask_param": 1, "time_mask_param": 1, "value": 0.5}
    others = [
        ("RandomGain", {"min_db": -3.0, "max_db": 9.0}),
        ("GaussianNoise", {"mean": 0.5, "sigma": 2.0}),
        ("SpecMask", {**bands, "num_freq_masks": 2}),
    ]
    steps += data.draw(st.lists(st.sampled_from(others), min_size=1, max_size=3))
    check(leaves, steps, seed, 1e-5)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "i8"])
@settings(max_examples=10)
@given(SEEDS, st.integers(0, 99), st.floats(0, 1), st.floats(0, 0.5))
def test_tokens(dtype: str, seed: int, mask: int, p: float, p_random: float) -> None:
    options: dict[str, Any] = {
        "mask_token": mask,
        "vocab_size": 100,
        "p": p,
        "p_mask": 0.5,
        "p_random": p_random,
        "special_tokens": [3, 5],
    }
    random = np.random.default_rng(seed % 1000)
    examples = [{"x": random.integers(0, 100, 40).astype(dtype)} for _ in range(3)]
    operation = T.TokenMask(**options)
    chains = {"x": [operation], "y": [T.Source("x"), operation.labels(77)]}
    examples = [{"id": np.int64(i), **example} for i, example in enumerate(examples)]
    batches = drawn(examples, chains, batch_size=1, factor=2, seed=seed)
    for draw, batch in enumerate(batches):
        tokens = examples[int(batch["id"][0])]["x"]
        words = Draw(seed=seed, epoch=0, draw=draw, op=0)
        what = parameters("TokenMask", options, words, tokens)
        wanted = masks.token_mask(tokens, **what)
        np.testing.assert_array_equal(batch["x"][0], wanted)
        told = masks.token_labels(tokens, selected=what["selected"], ignore_index=77)
        np.testing.assert_array_equal(batch["y"][0], told)


@pytest.mark.parametrize("value", [2**53 + 1, -(2**63), 2**62 + 12345])
def test_large_tokens_are_not_rounded(value: int) -> None:
    tokens = np.full(30, value, np.int64)
    mask = T.TokenMask(1, 2, p=0.5, p_mask=0.0, p_random=0.0)
    for example in ([mask], [mask.labels()], [T.RandomWindow(20), mask]):
        [(_, made)] = rows([tokens], example, batch_size=1)
        assert set(made.tolist()) <= {value, -100}
