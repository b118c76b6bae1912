"""`MixUp` and `CutMix` in the buffer: partners, weights, labels, use."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from echobuf import transforms as T
from helpers import keyed
from schedule_reference import fixed_passes
from transform_engine import drawn
from transform_reference import Draw, draws, mixing, transform

COUNT, CLASSES = 10, 10
RANDOM = np.random.default_rng(2)
IMAGES = RANDOM.random((COUNT, 6, 5, 3), np.float32)
OPTIONS: dict[str, Any] = {"window": COUNT, "factor": 3, "seed": 8}


def served(mix: Any, before: list[T.Operation], **options: Any) -> list[tuple]:
    examples = [
        {"image": image, "label": np.int64(i), "number": np.int64(i)}
        for i, image in enumerate(IMAGES)
    ]
    chains = {"image": [*before, mix]}
    batches = drawn(examples, chains, **{"batch_size": 4, **OPTIONS, **options})
    return [
        (int(number), image, label)
        for batch in batches
        for number, image, label in zip(*(batch[k] for k in KEYS), strict=True)
    ]


KEYS = ("number", "image", "label")


def partners(op: int) -> list[tuple[int, int, Draw]]:
    """Of each draw: the example, its partner, and the words of the mix."""
    passes = fixed_passes(OPTIONS["window"], Fraction(OPTIONS["factor"]), COUNT)
    order = keyed(OPTIONS["seed"], 0)
    found = []
    for number, window in enumerate(passes):
        records = [window[record] for record in order(number, len(window))]
        for place, record in enumerate(records):
            words = Draw(seed=OPTIONS["seed"], epoch=0, draw=len(found), op=op)
            other = records[draws.partner(words, place, len(records))]
            found.append((record, other, words))
    return found


def cropped(number: int, words: Draw, *, partner: bool) -> np.ndarray:
    """The crop is operation 0; that of a partner has chances of its own."""
    own = Draw(words.seed, words.epoch, words.draw, 0)
    words = own.partner if partner else own
    return transform("RandomCrop", {"size": 4}, words, IMAGES[number])


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_mixup(alpha: float) -> None:
    mix = T.MixUp(alpha=alpha, num_classes=CLASSES)
    made = served(mix, [T.RandomCrop(4)])
    for (number, image, label), (want, other, words) in zip(
        made, partners(1), strict=True
    ):
        assert number == want != other
        weight = draws.mix_up(words, (4, 4, 3), alpha=alpha)["weight"]
        own = cropped(number, words, partner=False)
        others = cropped(other, words, partner=True)
        wanted = mixing.mixup(own, others, weight=weight)
        np.testing.assert_allclose(image, wanted, atol=1e-6)
        wanted = mixing.mix_labels(number, other, weight=weight, num_classes=CLASSES)
        np.testing.assert_allclose(label, wanted, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_cutmix(alpha: float) -> None:
    made = served(T.CutMix(alpha=alpha, num_classes=CLASSES), [T.RandomCrop(4)])
    for (number, image, label), (_, other, words) in zip(
        made, partners(1), strict=True
    ):
        what = draws.cut_mix(words, (4, 4, 3), alpha=alpha)
        own = cropped(number, words, partner=False)
        others = cropped(other, words, partner=True)
        wanted = mixing.cutmix(own, others, box=what["box"])
        np.testing.assert_array_equal(image, wanted)
        weight = {"weight": what["outside"], "num_classes": CLASSES}
        wanted = mixing.mix_labels(number, other, **weight)
        np.testing.assert_allclose(label, wanted, atol=1e-6)


@pytest.mark.parametrize("mix", [T.MixUp, T.CutMix])
@pytest.mark.parametrize("batch_size", [1, 3, 10])
def test_neither_partner_nor_weight_depends_on_the_batch(
    mix: Any, batch_size: int
) -> None:
    few = served(mix(num_classes=CLASSES), [], batch_size=batch_size)
    many = served(mix(num_classes=CLASSES), [], batch_size=4)
    for (a, image, label), (b, other, wanted) in zip(few, many, strict=True):
        assert a == b
        np.testing.assert_array_equal(image, other)
        np.testing.assert_array_equal(label, wanted)


@pytest.mark.parametrize("mix", [T.MixUp, T.CutMix])
def test_use_as_a_partner_is_not_counted(mix: Any) -> None:
    made = served(mix(num_classes=CLASSES), [])
    assert Counter(number for number, _, _ in made) == dict.fromkeys(range(COUNT), 3)
    for _, _, label in made:
        assert label.sum() == pytest.approx(1, abs=1e-6)


def test_labels_that_are_probabilities() -> None:
    soft = np.eye(4, dtype=np.float32)
    examples = [{"x": IMAGES[i], "labels": soft[i]} for i in range(4)]
    options = {"batch_size": 4, "factor": 4, "seed": 1}
    for batch in drawn(examples, {"x": [T.MixUp()]}, **options):
        assert batch["labels"].shape == (4, 4)
        np.testing.assert_allclose(batch["labels"].sum(axis=1), 1, atol=1e-6)
        for image, label in zip(batch["x"], batch["labels"], strict=True):
            wanted = np.tensordot(label, IMAGES[:4], 1)
            np.testing.assert_allclose(image, wanted, atol=1e-6)


def test_the_object_in_both_chains_needs_no_name() -> None:
    mix = T.CutMix(num_classes=CLASSES)
    image = IMAGES[0]
    examples = [{"a": image, "b": np.uint8(3), "c": np.int32(4)}]
    [batch] = drawn(examples, {"a": [mix], "c": [mix]}, batch_size=1)
    assert batch["b"].dtype == np.uint8
    assert batch["c"].tolist() == np.eye(CLASSES)[[4]].tolist()
    np.testing.assert_array_equal(batch["a"][0], image)  # its own partner


def test_partners_of_rows_of_whole_batches() -> None:
    batch = {"x": IMAGES[:4], "label": np.arange(4)}
    from echobuf import EchoBuffer, Field

    spec = {"x": Field((4, 6, 5, 3), np.float32), "label": Field((4,), np.int64)}
    chain = {"x": [T.MixUp(num_classes=4)]}
    with EchoBuffer(
        spec, unit="batch", window=3, factor=3, transform=chain, seed=4
    ) as buffer:
        buffer.put(batch)
        buffer.close()
        for draw, made in enumerate(buffer):
            for row in range(4):
                words = Draw(4, 0, draw, 0, row)
                other = draws.partner(words, row, 4)
                weight = draws.mix_up(words, ())["weight"]
                wanted = mixing.mixup(IMAGES[row], IMAGES[other], weight=weight)
                np.testing.assert_allclose(made["x"][row], wanted, atol=1e-6)
                assert made["label"][row, row] == pytest.approx(weight, abs=1e-6)
