"""Mixes that containers apply by chance, and their labels."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from echobuf import OptionError, SpecError
from echobuf import transforms as T
from helpers import keyed
from schedule_reference import fixed_passes
from transform_containers import chain, expected
from transform_engine import Step, drawn
from transform_reference import Draw, draws, mixing
from transform_reference.containers import carried_out

pytestmark = pytest.mark.contract

COUNT = 7
IMAGES = np.random.default_rng(2).random((COUNT, 6, 5, 3), np.float32)
OPTIONS: dict[str, Any] = {"window": COUNT, "factor": 4, "seed": 8, "batch_size": 4}
MIXES: list[Step] = [
    ("MixUp", {"num_classes": COUNT, "alpha": 0.7}),
    ("CutMix", {"num_classes": COUNT}),
]
EXAMPLES = [
    {"image": image, "label": np.int64(i), "number": np.int64(i)}
    for i, image in enumerate(IMAGES)
]
BEFORE: dict[str, list[Step]] = {
    "none": [],
    "crop": [("RandomCrop", {"size": 4})],
    "by chance": [
        (
            "RandomApply",
            {
                "transforms": [
                    ("RandomVerticalFlip", {}),
                    ("RandomErasing", {"p": 1.0, "value": 2}),
                ]
            },
        ),
        ("RandomChoice", {"transforms": [[], ("RandomHorizontalFlip", {"p": 1.0})]}),
    ],
}
SWITCHES: dict[str, Step] = {
    "one of two": ("RandomChoice", {"transforms": MIXES, "p": [1, 2]}),
    "one of three": ("RandomChoice", {"transforms": [MIXES[1], [], MIXES[0]]}),
    "now and then": ("RandomApply", {"transforms": MIXES[:1], "p": 0.6}),
    "nested": (
        "RandomApply",
        {"transforms": [("RandomChoice", {"transforms": MIXES})], "p": 0.7},
    ),
    "beside a flip": (
        "RandomChoice",
        {"transforms": [("RandomHorizontalFlip", {"p": 1.0}), *MIXES]},
    ),
}


def places() -> list[tuple[int, int, list[int]]]:
    """Of each draw: the example, its place in the pass, and the pass."""
    passes = fixed_passes(COUNT, Fraction(OPTIONS["factor"]), COUNT)
    order = keyed(OPTIONS["seed"], 0)
    found = []
    for number, window in enumerate(passes):
        records = [window[record] for record in order(number, len(window))]
        found += [(record, place, records) for place, record in enumerate(records)]
    return found


def words(draw: int, op: int) -> Draw:
    return Draw(seed=OPTIONS["seed"], epoch=0, draw=draw, op=op)


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("switch", SWITCHES)
def test_partner_weight_and_labels_are_those_of_the_mix_that_was_chosen(
    switch: str, before: str
) -> None:
    steps = [*BEFORE[before], SWITCHES[switch]]
    first = sum(1 for _ in _names(BEFORE[before]))
    names = list(_names(steps))
    chooser = next(i for i, name in enumerate(names) if name in ("MixUp", "CutMix"))
    batches = drawn(EXAMPLES, {"image": chain(steps)}, **OPTIONS)
    made = [
        row
        for batch in batches
        for row in zip(*map(batch.get, ("number", "image", "label")), strict=True)
    ]
    kinds = set()
    for draw, (number, place, records) in enumerate(places()):
        got, image, label = made[draw]
        assert got == number
        other = records[draws.partner(words(draw, chooser), place, len(records))]
        done = carried_out(
            [SWITCHES[switch]],
            lambda op, draw=draw: words(draw, op),  # type: ignore[misc]
            itertools.count(first),
        )
        seed = OPTIONS["seed"]
        own = expected(IMAGES[number], BEFORE[before], draw, seed=seed)
        theirs = expected(IMAGES[other], BEFORE[before], draw, seed=seed, partner=True)
        wanted_label = np.eye(COUNT, dtype=np.float32)[number]
        name = None
        for name, options, op in done:
            alpha = options.get("alpha", 1.0)
            if name == "MixUp":
                what = draws.mix_up(words(draw, op), own.shape, alpha=alpha)
                share = what["weight"]
                own = mixing.mixup(own, theirs, weight=share)
            elif name == "CutMix":
                what = draws.cut_mix(words(draw, op), own.shape)
                share = what["outside"]
                own = mixing.cutmix(own, theirs, box=what["box"])
            else:
                own, share = own[:, ::-1], 1.0
            wanted_label = mixing.mix_labels(
                number, other, weight=share, num_classes=COUNT
            )
        kinds.add(name)
        np.testing.assert_allclose(image, own, atol=1e-6)
        np.testing.assert_allclose(label, wanted_label, atol=1e-6)
    assert len(kinds) > 1  # each of the alternatives that the test is about


def _names(steps: Any) -> Any:
    """Of all operations, those in containers included, as they are numbered."""
    for step in steps:
        if isinstance(step, list):
            yield from _names(step)
            continue
        name, options = step
        yield name
        yield from _names(options.get("transforms", []))


def mixes() -> list[T.Operation]:
    return [T.MixUp(num_classes=COUNT), T.CutMix(num_classes=COUNT)]


def test_the_container_in_the_chains_of_images_and_labels() -> None:
    """It may stand there, and labels that are named are those that it finds."""
    found = drawn(EXAMPLES, {"image": [T.RandomChoice(mixes())]}, **OPTIONS)
    both = T.RandomChoice(mixes())
    chains = {"image": [both], "view": [T.Source("image"), both], "label": [both]}
    for batch, want in zip(drawn(EXAMPLES, chains, **OPTIONS), found, strict=True):
        np.testing.assert_array_equal(batch["label"], want["label"])
        np.testing.assert_array_equal(batch["image"], want["image"])
        np.testing.assert_array_equal(batch["view"], want["image"])


def test_labels_that_are_probabilities() -> None:
    soft = [{**each, "label": np.eye(COUNT, dtype=np.float32)[i]} for i, each in E]
    switch = T.RandomApply([T.RandomChoice([T.MixUp(), T.CutMix()])], p=0.5)
    hard = T.RandomApply([T.RandomChoice(mixes())], p=0.5)
    want = drawn(EXAMPLES, {"image": [hard]}, **OPTIONS)
    got = drawn(soft, {"image": [switch]}, **OPTIONS)
    for batch, wanted in zip(got, want, strict=True):
        np.testing.assert_array_equal(batch["label"], wanted["label"])


E = list(enumerate(EXAMPLES))


def test_no_labels() -> None:
    switch = T.RandomChoice([T.MixUp(labels=None), T.CutMix(labels=None)])
    for batch in drawn(EXAMPLES, {"image": [switch]}, **OPTIONS):
        assert batch["label"].dtype == np.int64


REFUSED = [
    (lambda: [*mixes()], OptionError, "2 mixes.*RandomChoice"),
    (lambda: [T.RandomApply(mixes()[:1]), mixes()[0]], OptionError, "2 mixes"),
    (lambda: [T.RandomApply(mixes())], SpecError, "alone in its branch"),
    (
        lambda: [T.RandomChoice([[T.RandomErasing(), mixes()[0]], []])],
        SpecError,
        "alone in its branch",
    ),
    (
        lambda: [T.RandomApply([T.RandomErasing(), T.RandomApply(mixes()[:1])])],
        SpecError,
        "alone in its branch",
    ),
    (lambda: [T.RandomOrder(mixes()[:1])], SpecError, "RandomOrder"),
    (
        lambda: [T.RandomApply([T.RandomOrder(mixes()[:1])])],
        SpecError,
        "RandomOrder",
    ),
    (lambda: [T.RandomChoice([T.MixUp(), T.CutMix()])], SpecError, "num_classes"),
    (
        lambda: [T.RandomChoice([T.MixUp(num_classes=3), T.CutMix(num_classes=4)])],
        SpecError,
        "num_classes",
    ),
    (
        lambda: [T.RandomChoice([T.MixUp(labels=None), T.CutMix(num_classes=4)])],
        OptionError,
        "labels.*different leaves",
    ),
]


@pytest.mark.host
@pytest.mark.parametrize(("operations", "error", "message"), REFUSED)
def test_mixes_that_do_not_fit(operations: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        drawn(EXAMPLES, {"image": operations()}, **OPTIONS)


@pytest.mark.host
def test_one_mix_twice_in_a_chain() -> None:
    switch = T.RandomChoice(mixes())
    with pytest.raises(SpecError, match="second mix"):
        drawn(EXAMPLES, {"image": [switch, switch]}, **OPTIONS)
