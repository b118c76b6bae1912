"""Chains on ragged leaves make on a device what they make on the CPU, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import echobuf
from chains_for_tests import random_case
from echobuf import Field
from echobuf import transforms as T
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker
from transform_reference import Draw, transform

WINDOW = T.RandomWindow(20)
MASK = T.TokenMask(1, 200, p=0.3, special_tokens=[0])
SPEC = {
    "tokens": Field((None,), np.int32),
    "wave": Field((None, 2), np.float32),
    "image": Field((9, 11, 3), np.uint8),
}
CHAINS: dict[str, list[Any]] = {
    "tokens": [MASK],
    "labels": [T.Source("tokens"), MASK.labels()],
    "part": [T.Source("tokens"), WINDOW, MASK],
    "plain": [T.Source("tokens"), WINDOW],
    "attend": [T.Source("tokens"), WINDOW.mask(), T.ToDtype(np.float32)],
    "wave": [
        T.GaussianNoise(clip=False),
        T.RandomApply([T.SpecMask(1, 30, time_axis=0)]),
        T.ToDtype(np.float16),
    ],
    "center": [T.Source("wave"), T.CenterWindow(7), T.RandomGain()],
    "image": [T.RandomResizedCrop(8), T.ColorJitter(0.4, 0.4, 0.4)],
}
PAD = {"tokens": 3, "wave": 0.5, "image": None}
OPTIONS = {"batch_size": 5, "window": 16, "factor": 2, "seed": 7}
MOST = 700  # rows of an example: several pieces


def bits(leaf: Any) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Types, shapes and bytes of the arrays of a leaf."""
    parts = leaf if isinstance(leaf, tuple) else (leaf,)
    arrays = [np.asarray(part) for part in parts]
    return [(str(array.dtype), array.shape, array.tobytes()) for array in arrays]


def batches(
    device: str, spec: Any, chains: Any, examples: list[Any], **options: Any
) -> list[dict[str, Any]]:
    """The bits of the batches of an epoch."""

    def feed() -> None:
        for example in examples:
            buffer.put(example, timeout=WAIT_S)
        buffer.close()

    with echobuf.EchoBuffer(
        spec, transform=chains, device=device, **OPTIONS | options
    ) as buffer:
        producer = Worker(feed)
        drawn = [{name: bits(leaf) for name, leaf in batch.items()} for batch in buffer]
        producer.result()
    return drawn


def expect_same(
    kernels: str, spec: Any, chains: Any, examples: list[Any], **options: Any
) -> None:
    on_host = batches("cpu", spec, chains, examples, **options)
    assert len(on_host) > 2
    with simulated_cuda(3, kernels):
        on_device = batches("cuda", spec, chains, examples, **options)
    assert on_device == on_host


def lengths(count: int) -> list[int]:
    """Lengths of examples: none, a few, and more than a piece has."""
    dice = random.Random(count)
    few = [dice.choice([0, 1, 7, 19, 20, 21, 33, 64]) for _ in range(count)]
    return [MOST - i if i % 6 == 5 else length for i, length in enumerate(few)]


def examples_of(spec: Any, count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(count)

    def array(field: Field, rows: int) -> np.ndarray:
        shape = tuple(rows if axis is None else axis for axis in field.shape)
        values = rng.integers(0, 200, shape)
        return values.astype(field.dtype)

    return [
        {name: array(field, rows) for name, field in spec.items()}
        for rows in lengths(count)
    ]


FORMS = {
    "packed": {},
    "padded": {"ragged": "padded", "pad_value": PAD},
    "multiples": {"pad_to": 16, "pad_value": PAD},
    "bounded": {"max_rows": 800, "batch_size": None},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernels", ["host", "ptx"])
def test_batches_are_those_of_the_cpu(form: str, kernels: str) -> None:
    spec, count = SPEC, 23
    if kernels == "ptx":  # which is slow: no noise
        spec = {name: SPEC[name] for name in ("tokens", "image")}
        count = 13
    chains = {
        name: chain
        for name, chain in CHAINS.items()
        if "wave" in spec or name not in ("wave", "center")
    }
    options = dict(FORMS[form])
    if "pad_value" in options:
        options["pad_value"] = {name: PAD[name] for name in spec}
    options["payload_bytes"] = 40_000
    expect_same(kernels, spec, chains, examples_of(spec, count), **options)


@pytest.mark.parametrize("kernels", ["host", "ptx"])
def test_packed_rows_are_those_of_the_cpu(kernels: str) -> None:
    spec = {"tokens": SPEC["tokens"], "wave": SPEC["wave"]}
    names = ("tokens", "labels", "wave")
    chains = {name: CHAINS[name] for name in names}
    chains["same"] = [T.Source("wave")]
    options = {"pack_to": MOST, "batch_size": 2, "payload_bytes": 100_000}
    count = 30 if kernels == "host" else 15
    expect_same(kernels, spec, chains, examples_of(spec, count), **options)


def test_rows_that_stages_alone_make_have_their_ids() -> None:
    spec = {"tokens": SPEC["tokens"]}
    options = {"pack_to": MOST, "batch_size": 2, "payload_bytes": 100_000}
    chains = {"tokens": [MASK]}
    expect_same("host", spec, chains, examples_of(spec, 30), **options)


@pytest.mark.parametrize("seed", [seed for seed in range(18) if seed % 5 != 4])
def test_random_chains_behind_a_window_are_those_of_the_cpu(seed: int) -> None:
    spec, chains = random_case(seed)
    chains = {name: without_mixes(chain) for name, chain in chains.items()}
    height, *rest = spec["image"].shape
    window = T.RandomWindow(height)
    for name in ("image", "view"):
        if name in chains:
            at = 1 if isinstance(chains[name][0], T.Source) else 0
            chains[name].insert(at, window)
    spec["image"] = Field((None, *rest), spec["image"].dtype)
    dice = random.Random(seed)
    examples = examples_of({**spec, "label": Field((), np.int64)}, 12)
    for example in examples:
        rows = dice.randint(0, 2 * height)
        example["image"] = np.resize(example["image"][:1], (rows, *rest)) + rows
        example["image"] = example["image"].astype(spec["image"].dtype)
    expect_same("host", spec, chains, examples, payload_bytes=400_000)


def without_mixes(chain: list[Any]) -> list[Any]:
    return [each for each in chain if not isinstance(each, T.MixUp | T.CutMix)]


def test_more_examples_than_are_made_at_once() -> None:
    spec = {"tokens": SPEC["tokens"]}
    kept = [MASK, T.ToDtype(np.float32), T.RandomGain()]  # two stages
    part = [T.Source("tokens"), T.RandomWindow(2), MASK, T.ToDtype(np.float32)]
    dice = random.Random(1)
    examples = [
        {"tokens": np.arange(dice.randint(0, 3), dtype=np.int32) + i}
        for i in range(5000)
    ]
    sizes = {"batch_size": 4500, "window": 5000, "payload_bytes": 400_000}
    chains = {"tokens": kept, "part": part}
    on_host = batches("cpu", spec, chains, examples, **sizes)
    with simulated_cuda(3):
        assert batches("cuda", spec, chains, examples, **sizes) == on_host


def test_an_automatic_factor_keys_each_draw_by_its_number() -> None:
    """Batches wait in their middle, and go on with the same numbers."""
    spec = {"id": Field((), np.int64), "tokens": SPEC["tokens"]}
    chains = {"tokens": [MASK], "part": [T.Source("tokens"), WINDOW, MASK]}
    examples = [
        {"id": i, "tokens": 5 + np.arange(length, dtype=np.int32)}
        for i, length in enumerate(lengths(60))
    ]
    options = OPTIONS | {"factor": "auto", "max_factor": 3, "payload_bytes": 40_000}
    settings = {"mask_token": 1, "vocab_size": 200, "p": 0.3, "special_tokens": [0]}

    def feed() -> None:
        for example in examples:
            buffer.put(example, timeout=WAIT_S)
        buffer.close()

    with (
        simulated_cuda(5),
        echobuf.EchoBuffer(spec, transform=chains, device="cuda", **options) as buffer,
    ):
        producer = Worker(feed)
        made = [
            (int(number), np.array(tokens))
            for batch in buffer
            for number, tokens in zip(
                batch["id"], batch["tokens"].to_list(), strict=True
            )
        ]
        producer.result()
    assert {number for number, _ in made} == set(range(60))
    for number, (example, tokens) in enumerate(made):
        whole = examples[example]["tokens"]
        draw = Draw(seed=options["seed"], epoch=0, draw=number, op=0)
        wanted = transform("TokenMask", settings, draw, whole) if len(whole) else whole
        np.testing.assert_array_equal(tokens, wanted)
