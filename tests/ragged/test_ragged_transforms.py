"""Chains on ragged leaves make what the slow reference makes of each draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_records import Lengths, cases, make, points, put_all, tokens

from echobuf import EchoBuffer, Field, Packed, Padded, Ragged
from echobuf import transforms as T
from equal_arrays import assert_equal
from helpers import PUT_SIZES, WAIT_S, Worker
from transform_reference import Draw, transform

pytestmark = pytest.mark.contract

PAD = {"id": None, "tokens": 3, "points": 9}
VOCABULARY = 50_000
MASK = {"mask_token": 4, "vocab_size": VOCABULARY, "p": 0.4, "special_tokens": [3]}
# The reference's, of the first axis and of the second.
BANDS = {"freq_mask_param": 6, "time_mask_param": 1, "num_freq_masks": 2}
BANDS_OF_TIME_FIRST = {
    "time_mask_param": "freq_mask_param",
    "freq_mask_param": "time_mask_param",
    "num_time_masks": "num_freq_masks",
}


# ---- the reference


def window_of(example: np.ndarray, length: int, draw: Draw, pad: int) -> np.ndarray:
    """A window, or the whole example with padding behind it."""
    if len(example) >= length:
        return transform("RandomWindow", {"length": length}, draw, example)
    filling = np.full((length - len(example), *example.shape[1:]), pad, example.dtype)
    return np.concatenate([example, filling])


def noise_of(example: np.ndarray, draw: Draw) -> np.ndarray:
    options = {"mean": 0.5, "sigma": 0.25, "clip": None}
    if not len(example):
        return example.astype(np.float32)
    return transform("GaussianNoise", options, draw, example.astype(np.float32))


class Chains:
    """The chains of all leaves, and what the reference makes of one draw.

    Operations are numbered in order: those of leaves of the spec, by their keys, then
    those of further ones.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        window, mask = T.RandomWindow(length), T.TokenMask(**MASK)
        bands = {name: BANDS[other] for name, other in BANDS_OF_TIME_FIRST.items()}
        self.transform: dict[str, list[T.Operation]] = {
            "points": [window],  # 0
            "tokens": [mask],  # 1
            "labels": [T.Source("tokens"), mask.labels()],
            "part": [T.Source("tokens"), window, mask],
            "part_mask": [T.Source("tokens"), window.mask()],
            "center": [T.Source("points"), T.CenterWindow(length)],  # 2
            "noise": [
                T.Source("points"),
                T.ToDtype(np.float32),  # 3
                T.GaussianNoise(mean=0.5, sigma=0.25, clip=False),  # 4
            ],
            "same": [T.Source("points")],
            "times": [
                T.Source("points"),
                T.ToDtype(np.float32),  # 5
                T.SpecMask(**bands, time_axis=0),  # 6
            ],
        }

    def expected(
        self, number: int, lengths: Lengths, seed: int, epoch: int, draw: int
    ) -> dict[str, Any]:
        ids, dots = tokens(number, lengths[0]), points(number, lengths[1])
        window, mask, noise, bands = (
            Draw(seed, epoch, draw, op) for op in (0, 1, 4, 6)
        )
        masked = transform("TokenMask", MASK, mask, ids) if len(ids) else ids
        part = window_of(ids, self.length, window, PAD["tokens"])
        selected = np.zeros(len(ids), bool)
        if len(ids):
            unit = mask.elements(len(ids))[:, 0] * 2.0**-32
            selected = (unit < MASK["p"]) & (ids != 3)
        spare = max(0, len(dots) - self.length) // 2
        center = dots[spare : spare + self.length]
        return {
            "id": number,
            "points": window_of(dots, self.length, window, PAD["points"]),
            "tokens": masked,
            "labels": np.where(selected, ids, -100),
            "part": transform("TokenMask", MASK, mask, part),
            "part_mask": np.arange(self.length) < len(ids),
            "center": window_of(center, self.length, window, PAD["points"]),
            "noise": noise_of(dots, noise),
            "times": transform("SpecMask", BANDS, bands, dots.astype(np.float32)),
            "same": dots,
        }


# ---- the engine


def serve(
    buffer: EchoBuffer,
    lengths: Sequence[Lengths],
    sizes: Sequence[int],
    first: int = 0,
    note: Callable[[], Any] = lambda: None,
) -> list[list[dict[str, Any]]]:
    """The examples of each batch of an epoch, leaf by leaf."""

    def feed() -> None:
        put_all(buffer, range(first, len(lengths)), lengths, sizes)
        buffer.close()

    producer = Worker(feed)
    batches = []
    while True:
        try:
            batch = buffer.next_batch(timeout=WAIT_S)
        except StopIteration:
            break
        batches.append(apart(batch))
        note()
    producer.result()
    return batches


def apart(batch: dict[str, Any]) -> list[dict[str, Any]]:
    """The examples of a batch, whatever the form of its leaves."""
    leaves = {
        name: leaf.to_list() if isinstance(leaf, Ragged | Padded) else list(leaf)
        for name, leaf in batch.items()
    }
    for name, leaf in batch.items():
        if isinstance(leaf, Padded):
            pad = PAD["points" if name in ("noise", "same", "times") else "tokens"]
            assert (leaf.values[~leaf.mask] == pad).all()
    count = len(batch["id"])
    assert {len(leaf) for leaf in leaves.values()} == {count}
    return [{name: leaf[i] for name, leaf in leaves.items()} for i in range(count)]


def check(made: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert made.keys() == wanted.keys()
    for name, value in wanted.items():
        if name == "noise":
            np.testing.assert_allclose(made[name], value, rtol=1e-5, atol=1e-4)
        else:
            assert_equal(made[name], value, name)


@settings(max_examples=60)
@given(cases(), PUT_SIZES, st.integers(1, 12), st.integers(0, 3))
def test_each_draw_is_that_of_the_reference(case, sizes, length, epoch):
    kwargs, lengths = case
    chains = Chains(length)
    kwargs |= {"transform": chains.transform, "pad_value": PAD}
    with make(kwargs) as buffer:
        buffer.close()
        assert list(buffer) == []
        buffer.reset(epoch)
        made = [each for batch in serve(buffer, lengths, sizes) for each in batch]
    assert made or not lengths or kwargs["drop_last"]
    for draw, each in enumerate(made):
        number = int(each["id"])
        check(
            each,
            chains.expected(number, lengths[number], kwargs["seed"], epoch, draw),
        )


@settings(max_examples=15)
@given(cases(), PUT_SIZES, st.integers(1, 12), st.integers(0, 9))
def test_a_state_of_any_batch_goes_on_with_the_same_numbers(case, sizes, length, begin):
    kwargs, lengths = case
    kwargs |= {"transform": Chains(length).transform, "pad_value": PAD}
    states = []
    with make(kwargs) as buffer:
        states.append(buffer.state_dict())
        note = lambda: states.append(buffer.state_dict())  # noqa: E731
        whole = serve(buffer, lengths, sizes, note=note)
    assert states[-1]["epoch"] == (1 if whole else 0)
    step = 1 + len(whole) // 6
    for done in range(begin % step, len(whole), step):
        state = states[done]
        with make(kwargs) as buffer:
            buffer.load_state_dict(state)
            rest = serve(buffer, lengths, sizes, first=state["fresh_offset"])
        assert [len(batch) for batch in rest] == [len(batch) for batch in whole[done:]]
        for batch, other in zip(rest, whole[done:], strict=True):
            for made, before in zip(batch, other, strict=True):
                check(made, before)


# ---- beside leaves of fixed shape


def both(
    shape: tuple[int, ...], dtype: str, chain: list[T.Operation], **kwargs: Any
) -> tuple[list[Any], list[Any]]:
    """The batches of one leaf, declared with a fixed shape and with any length."""
    count = 9
    values = np.random.default_rng(1).integers(0, 255, (count, *shape)).astype(dtype)
    options = {"batch_size": 4, "window": 8, "factor": 2, "seed": 3} | kwargs
    batches: list[list[Any]] = []
    for field in (
        Field(shape, dtype),
        Field((None, *shape[1:]), dtype, max_length=shape[0]),
    ):
        with EchoBuffer(field, transform=chain, **options) as buffer:
            producer = Worker(feed_whole, buffer, values)
            batches.append(list(buffer))
            producer.result()
    return batches[0], batches[1]


def feed_whole(buffer: EchoBuffer, values: np.ndarray) -> None:
    for value in values:
        buffer.put(value, timeout=WAIT_S)
    buffer.close()


WINDOWED = {
    "window": ((31,), "int32", [T.RandomWindow(7)]),
    "all of it": ((31,), "int32", [T.RandomWindow(31)]),
    "center": ((31, 2), "float64", [T.CenterWindow(6)]),
    "tokens": ((700,), "int64", [T.RandomWindow(600), T.TokenMask(1, 200, p=0.3)]),
    "sound": (
        (400, 2),
        "float32",
        [T.RandomWindow(33), T.RandomGain(), T.GaussianNoise(sigma=3.0)],
    ),
    "spectrum": ((40, 9), "float32", [T.RandomWindow(20), T.SpecMask(9, 4, 2, 2)]),
    "clip": (
        (7, 9, 10, 3),
        "uint8",
        [T.RandomWindow(4), T.Layout("THWC"), T.RandomCrop(6), T.ColorJitter(0.4)],
    ),
    "choice": (
        (50,),
        "int32",
        [T.RandomWindow(9), T.RandomApply([T.TokenMask(1, 200, p=0.5)])],
    ),
    "twice": ((50,), "int32", [T.RandomWindow(20), T.RandomWindow(5)]),
}


@pytest.mark.parametrize("name", WINDOWED)
def test_a_window_is_that_of_a_leaf_of_fixed_shape(name: str) -> None:
    shape, dtype, chain = WINDOWED[name]
    fixed, ragged = both(shape, dtype, chain)
    assert len(fixed) == len(ragged) > 2
    for one, other in zip(fixed, ragged, strict=True):
        assert one.dtype == other.dtype
        assert_equal(one, other)


@pytest.mark.host
def test_windows_larger_than_the_caches_are_those_of_a_leaf_of_fixed_shape() -> None:
    chain = [T.RandomWindow(512), T.ToDtype("float32")]
    fixed, ragged = both((600, 1024), "uint8", chain)
    assert_equal(np.concatenate(fixed), np.concatenate(ragged))


# Lengths that are made in pieces of all sizes, and leave some rows.
KEPT = {
    "tokens": ((1100,), "int32", [T.TokenMask(1, 200, p=0.3)]),
    "few": ((3,), "int64", [T.TokenMask(1, 200, p=0.5)]),
    "gain": ((600, 2), "float32", [T.RandomGain(), T.GaussianNoise(sigma=2.0)]),
    "wide": ((5, 700), "float16", [T.GaussianNoise(sigma=2.0)]),
    "odd": ((37, 3, 5), "float32", [T.RandomGain()]),
    "converted": ((150,), "uint8", [T.ToDtype("float16", scale=True)]),
    "bands": (
        (1100, 3),
        "float32",
        [T.SpecMask(2, 500, num_freq_masks=2, num_time_masks=3, time_axis=0)],
    ),
    "bands, perhaps": (
        (600, 3),
        "float16",
        [T.GaussianNoise(), T.RandomApply([T.SpecMask(1, 400, time_axis=0)])],
    ),
    "stages": (
        (77,),
        "int32",
        [T.TokenMask(1, 200, p=0.5), T.ToDtype("float32"), T.GaussianNoise()],
    ),
    "applied": (
        (77,),
        "int32",
        [T.RandomApply([T.TokenMask(1, 200, p=0.5)]), T.TokenMask(2, 9)],
    ),
    "chosen": (
        (77, 2),
        "float32",
        [
            T.RandomChoice([T.RandomGain(), T.GaussianNoise()]),
            T.RandomOrder([T.RandomGain(), T.GaussianNoise()]),
        ],
    ),
}


@pytest.mark.parametrize("form", ["packed", "padded", "rows"])
@pytest.mark.parametrize("name", KEPT)
def test_numbers_that_stay_are_those_of_a_leaf_of_fixed_shape(
    name: str, form: str
) -> None:
    shape, dtype, chain = KEPT[name]
    fixed, ragged = both(shape, dtype, chain)
    whole = np.concatenate(fixed)
    if form == "packed":
        assert all(type(batch) is Ragged for batch in ragged)
    else:
        rows = {"pack_to": shape[0], "factor": 2}
        options = {"ragged": "padded"} if form == "padded" else rows
        ragged = both_of_ragged(shape, dtype, chain, options)
        kind = Padded if form == "padded" else Packed
        assert all(type(batch) is kind for batch in ragged)
    values = np.concatenate([batch.values for batch in ragged])
    assert values.dtype == whole.dtype
    assert_equal(values.reshape(whole.shape), whole)
    assert (np.concatenate(fixed[:2])[0] != whole[4]).any()


def both_of_ragged(
    shape: tuple[int, ...], dtype: str, chain: list[T.Operation], more: dict[str, Any]
) -> list[Any]:
    count = 9
    values = np.random.default_rng(1).integers(0, 255, (count, *shape)).astype(dtype)
    options = {"batch_size": 4, "window": 8, "factor": 2, "seed": 3} | more
    field = Field((None, *shape[1:]), dtype, max_length=shape[0])
    with EchoBuffer(field, transform=chain, **options) as buffer:
        producer = Worker(feed_whole, buffer, values)
        batches = list(buffer)
        producer.result()
    return batches
