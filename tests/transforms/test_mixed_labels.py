"""Which labels `MixUp` and `CutMix` mix: found by name, by place, or in their chain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field, OptionError, SpecError
from echobuf import transforms as T
from transform_engine import drawn

pytestmark = pytest.mark.contract

COUNT = 6
IMAGES = np.random.default_rng(3).random((COUNT, 6, 5, 3), np.float32)
OPTIONS: dict[str, Any] = {"batch_size": 3, "window": COUNT, "factor": 3, "seed": 4}
MIXES = pytest.mark.parametrize("kind", [T.MixUp, T.CutMix])


def mixed(chains: Any, **options: Any) -> list[dict[str, np.ndarray]]:
    examples = [
        {"image": image, "label": np.int64(i), "number": np.int64(i)}
        for i, image in enumerate(IMAGES)
    ]
    return drawn(examples, chains, **{**OPTIONS, **options})


@MIXES
@pytest.mark.parametrize("labels", ["default", "label"])
def test_a_mix_of_two_views_mixes_the_labels_once(kind: Any, labels: Any) -> None:
    """Both views and the label have one partner and one weight."""
    mix = kind(num_classes=COUNT, labels=labels)
    alone = mixed({"image": [kind(num_classes=COUNT)]})
    both = mixed({"image": [mix], "view": [T.Source("image"), mix]})
    for batch, want in zip(both, alone, strict=True):
        np.testing.assert_array_equal(batch["label"], want["label"])
        np.testing.assert_array_equal(batch["image"], want["image"])
        np.testing.assert_array_equal(batch["view"], want["image"])
    assert any((batch["label"] > 0).sum(axis=1).max() == 2 for batch in both)


def test_a_mix_of_two_stored_images_mixes_the_labels() -> None:
    mix = T.MixUp(num_classes=2)
    examples = [
        {"left": np.full((4, 4, 3), i, np.float32), "label": np.int64(i)}
        for i in range(2)
    ]
    examples = [{**each, "right": each["left"]} for each in examples]
    for batch in drawn(examples, {"left": [mix], "right": [mix]}, factor=2):
        share = batch["label"][:, 1]
        np.testing.assert_allclose(batch["left"][:, 0, 0, 0], share, atol=1e-6)
        np.testing.assert_array_equal(batch["left"], batch["right"])


def test_a_cut_of_images_of_other_sizes_has_no_one_weight() -> None:
    """The boxes cover other shares of them: which would the labels have?"""
    mix = T.CutMix(num_classes=COUNT)
    chains = {"image": [mix], "view": [T.Source("image"), T.CenterCrop(3), mix]}
    with pytest.raises(SpecError, match=r"3 x 3.*6 x 5"):
        mixed(chains)
    without = T.CutMix(labels=None)
    chains = {"image": [without], "view": [T.Source("image"), T.CenterCrop(3), without]}
    assert mixed(chains)


def test_sums_of_images_of_other_sizes_have_one_weight() -> None:
    mix = T.MixUp(num_classes=COUNT)
    chains = {"image": [mix], "view": [T.Source("image"), T.CenterCrop(3), mix]}
    alone = mixed({"image": [T.MixUp(num_classes=COUNT)]})
    for batch, want in zip(mixed(chains), alone, strict=True):
        np.testing.assert_array_equal(batch["label"], want["label"])


@MIXES
def test_labels_that_are_named_are_mixed_beside_those_in_the_chain(kind: Any) -> None:
    mix = kind(num_classes=COUNT, labels="label")
    for batch in mixed({"image": [mix], "number": [mix]}):
        np.testing.assert_array_equal(batch["label"], batch["number"])


@MIXES
def test_an_image_is_not_its_own_label(kind: Any) -> None:
    with pytest.raises(OptionError, match=r"`labels` of .*'image'.*mixes as an image"):
        mixed({"image": [kind(num_classes=COUNT, labels="image")]})


IMAGE = Field((6, 5, 3), np.float32)
ONE_HOT = Field((4,), np.float32)
CLASS = Field((), np.int64)


@MIXES
@pytest.mark.parametrize(
    ("spec", "image"),
    [
        ({"img": IMAGE, "cls": ONE_HOT}, "img"),
        ({"img": IMAGE, "cls": CLASS}, "img"),
        ({"img": IMAGE, "cls": Field((4,), np.float16)}, "img"),
        ({"img": IMAGE, "cls": Field((4,), np.uint8)}, "img"),
        ({"image": IMAGE, "target": CLASS, "weight": Field((), np.float32)}, "image"),
        ({"image": IMAGE, "target": ONE_HOT, "weight": Field((), "f4")}, "image"),
        ((ONE_HOT, IMAGE), 1),
        ((IMAGE, ONE_HOT, Field((), np.float32)), 0),
    ],
)
def test_labels_that_are_not_found(kind: Any, spec: Any, image: Any) -> None:
    """Images alone would be mixed, and the labels be those of one of them."""

    def make(**settings: Any) -> EchoBuffer:
        chains = {image: [kind(**settings)]}
        return EchoBuffer(spec, batch_size=2, window=4, transform=chains)

    with pytest.raises(OptionError, match=r"(?s)`labels` of .*'default'.*labels=None"):
        make()
    make(labels=None).close()


@MIXES
@pytest.mark.parametrize(
    "spec",
    [
        {"image": IMAGE},
        {"image": IMAGE, "depth": IMAGE},
        {"image": IMAGE, "weight": Field((), np.float32)},
        {"image": IMAGE, "box": Field((4, 2), np.float32)},
    ],
)
def test_where_no_leaf_can_be_labels_none_are_looked_for(kind: Any, spec: Any) -> None:
    chains = {"image": [kind()]}
    if "depth" in spec:
        chains["depth"] = chains["image"]
    elif len(spec) == 2:
        chains = {"image": [kind(labels=None)]}
    EchoBuffer(spec, batch_size=2, window=4, transform=chains).close()


def test_labels_beside_two_views_are_the_second_of_two_leaves() -> None:
    mix = T.MixUp()
    chains = {"image": [mix], "view": [T.Source("image"), mix]}
    examples = [
        {"image": image, "target": np.eye(COUNT, dtype=np.float32)[i]}
        for i, image in enumerate(IMAGES)
    ]
    batches = drawn(examples, chains, **OPTIONS)
    assert any((batch["target"].max(axis=1) < 1).any() for batch in batches)


def test_features_of_one_axis_have_labels_too() -> None:
    """A sum of rows of a table is a sum of their labels."""
    eye = np.eye(COUNT, dtype=np.float32)
    examples = [{"features": eye[i], "label": np.int64(i)} for i in range(COUNT)]
    for batch in drawn(examples, {"features": [T.MixUp(num_classes=COUNT)]}, **OPTIONS):
        np.testing.assert_array_equal(batch["features"], batch["label"])
