"""Settings of operations: numbers of NumPy and torch, and what is not used of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field, OptionError, SpecError
from echobuf import transforms as T
from transform_engine import drawn, one

IMAGE = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(8, 6, 3)
TOKENS = np.arange(20, dtype=np.int32)
WAVE = np.linspace(-1, 1, 48, dtype=np.float32).reshape(6, 8)
CASES = [
    (IMAGE, T.RandomCrop, {"size": 4, "padding": 2, "fill": 7}),
    (IMAGE, T.RandomCrop, {"size": (4, 5), "padding": (2, 1), "fill": (7, 8, 9)}),
    (IMAGE, T.RandomCrop, {"size": 9, "pad_if_needed": True}),
    (IMAGE, T.CenterCrop, {"size": 4}),
    (IMAGE, T.RandomHorizontalFlip, {"p": 1}),
    (IMAGE, T.RandomVerticalFlip, {"p": 1}),
    (IMAGE, T.Resize, {"size": 4, "max_size": 5}),
    (IMAGE, T.Resize, {"size": (3, 4), "antialias": False}),
    (IMAGE, T.RandomResizedCrop, {"size": 4, "scale": (0.5, 1), "ratio": (1, 2)}),
    (IMAGE, T.RandomRotation, {"degrees": 30, "center": (1, 2), "fill": 3}),
    (IMAGE, T.RandomRotation, {"degrees": (5, 9), "fill": (1, 2, 3)}),
    (IMAGE, T.RandomAffine, {"degrees": 9, "translate": (0.5, 0.25), "shear": 4}),
    (IMAGE, T.RandomAffine, {"degrees": 0, "scale": (1, 2), "shear": (1, 2, 3, 4)}),
    (IMAGE, T.ColorJitter, {"brightness": 0.5, "contrast": (0.5, 2), "hue": 0.25}),
    (IMAGE, T.RandomErasing, {"p": 1, "scale": (0.25, 0.5), "value": 3}),
    (IMAGE, T.GaussianNoise, {"mean": 0.25, "sigma": 0.5, "clip": True}),
    (WAVE, T.Normalize, {"mean": 0.5, "std": 2}),
    (WAVE, T.RandomGain, {"min_db": -3, "max_db": 3}),
    (WAVE, T.RandomWindow, {"length": 3, "axis": -1}),
    (
        WAVE,
        T.SpecMask,
        {"freq_mask_param": 2, "time_mask_param": 3, "num_time_masks": 2, "value": 1},
    ),
    (WAVE, T.MixUp, {"alpha": 1, "labels": None}),
    (WAVE, T.CutMix, {"alpha": 2, "labels": None}),
    (
        TOKENS,
        T.TokenMask,
        {"mask_token": 3, "vocab_size": 100, "special_tokens": (1, 2), "p": 0.5},
    ),
]


def of_numpy(value: Any) -> Any:
    """The same setting as scalars and arrays of NumPy."""
    if isinstance(value, tuple):
        return np.asarray(value)
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, int):
        return np.int64(value)
    return np.float32(value) if isinstance(value, float) else value


def of_torch(value: Any) -> Any:
    import torch

    plain = value is None or isinstance(value, bool | str)
    return value if plain else torch.tensor(value)


def in_lists(value: Any) -> Any:
    """The same setting as lists of NumPy's scalars."""
    if isinstance(value, tuple):
        return [of_numpy(one) for one in value]
    return of_numpy(value)


@pytest.mark.parametrize("convert", [of_numpy, of_torch, in_lists])
@pytest.mark.parametrize(("leaf", "kind", "settings"), CASES)
def test_numbers_of_other_libraries(
    leaf: np.ndarray, kind: Any, settings: dict[str, Any], convert: Any
) -> None:
    """They make the same operation: its results, and what a state records of it."""
    if convert is of_torch:
        pytest.importorskip("torch")
    plain = kind(**settings)
    other = kind(**{name: convert(value) for name, value in settings.items()})
    np.testing.assert_array_equal(one(leaf, [other]), one(leaf, [plain]))
    for name, value in settings.items():
        got = getattr(other, name)
        assert got == (list(value) if isinstance(got, list) else value)
        assert "array" not in repr(other)
        assert "tensor" not in repr(other)
        assert "np." not in repr(other)


def test_labels_of_numpys_numbers() -> None:
    mask = T.TokenMask(np.int64(3), np.int32(100), p=np.float64(1.0))
    chains = {"x": [mask], "labels": [T.Source("x"), mask.labels(np.int16(-7))]}
    plain = T.TokenMask(3, 100, p=1.0)
    wanted = {"x": [plain], "labels": [T.Source("x"), plain.labels(-7)]}
    examples = [{"x": TOKENS}] * 2
    for got, want in zip(drawn(examples, chains), drawn(examples, wanted), strict=True):
        np.testing.assert_array_equal(got["x"], want["x"])
        np.testing.assert_array_equal(got["labels"], want["labels"])


@pytest.mark.parametrize(
    "dtype", ["c8", "c16", "M8[s]", "m8[ns]", [("a", "u1")], ">f4"]
)
@pytest.mark.parametrize(
    "crop",
    [
        T.RandomCrop(4),
        T.RandomCrop(4, fill=(1, 2, 3)),
        T.RandomCrop(4, padding=2, padding_mode="edge"),
        T.RandomCrop(9, pad_if_needed=True, padding_mode="reflect"),
    ],
    ids=repr,
)
def test_a_fill_that_is_not_used_is_not_looked_at(dtype: Any, crop: Any) -> None:
    leaf = np.zeros((8, 6), dtype)
    assert one(leaf, [crop]).dtype == leaf.dtype


HUGE = [2**31 - 1, 2**31, 2**40, 2**63, 2**64, -(2**31), -(2**63)]


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize(
    "form", [lambda n: n, lambda n: (n, 0), lambda n: (0, 0, n, 0)]
)
def test_paddings_beyond_any_image(number: int, form: Any) -> None:
    """The refusal says which paddings there may be."""
    padding = form(number)
    with pytest.raises((OptionError, SpecError)) as caught:
        one(IMAGE, [T.RandomCrop(4, padding=padding)])
    text = str(caught.value)
    if isinstance(caught.value, OptionError):
        assert "`padding`" in text
        assert "from 0 to 1,073,741,824" in text
    else:
        assert "1,073,741,824 rows and columns at most" in text


@pytest.mark.parametrize("size", [0, -1, 2**31, 2**70])
def test_sizes_beyond_any_image(size: int) -> None:
    with pytest.raises(OptionError, match=r"`size`.*from 1 to 2,147,483,647"):
        T.CenterCrop(size)


FILLS = pytest.mark.parametrize(
    ("fill", "cut", "rounded"),
    [(1.7, 1, 2), (0.5, 0, 0), (1.5, 1, 2), (2.5, 2, 2), (254.9, 254, 255)],
)


@FILLS
@pytest.mark.parametrize("dtype", ["u1", "u2", "i8"])
def test_fractions_of_fills_of_integers(
    fill: float, cut: int, rounded: int, dtype: str
) -> None:
    """Torchvision cuts them off in borders, and rounds with a warp's results."""
    border = T.RandomCrop(9, padding=4, fill=fill)
    assert one(np.zeros((1, 1), dtype), [border])[0, 0] == cut
    if dtype == "u1":
        erased = one(np.zeros((4, 4), dtype), [T.RandomErasing(1.0, value=fill)])
        assert erased.max() == cut
        for how in ("nearest", "bilinear"):
            turned = T.RandomRotation((45, 45), fill=fill, interpolation=how)
            moved = T.RandomAffine((45, 45), fill=fill, interpolation=how)
            for warp in (turned, moved):
                assert one(np.zeros((9, 9), dtype), [warp])[0, 0] == rounded


def test_keys_that_are_tuples() -> None:
    """A key of the spec is taken for what it is, before it is taken for a path."""
    spec = {
        ("left", "image"): Field((4, 4, 3), np.uint8),
        ("left", "label"): Field((), np.int64),
    }
    chains = {
        ("left", "image"): [T.ToDtype(np.float32), T.MixUp(num_classes=3)],
        "view": [T.Source(("left", "image")), T.CenterCrop(2)],
    }
    with EchoBuffer(spec, batch_size=1, window=1, factor=1, transform=chains) as buffer:
        buffer.put({("left", "image"): IMAGE[:4, :4], ("left", "label"): np.int64(1)})
        batch = buffer.next_batch()
    assert batch[("left", "image")].dtype == np.float32
    assert batch["view"].shape == (1, 2, 2, 3)
    assert batch[("left", "label")].tolist() == [[0, 1, 0]]


def test_keys_that_are_tuples_below_others() -> None:
    spec = {"a": {(0, 1): Field((4, 4, 3), np.uint8), "x": Field((), np.int64)}}
    for chains in (
        {"a": {(0, 1): [T.CenterCrop(2)]}},
        {("a", (0, 1)): [T.CenterCrop(2)]},
    ):
        options = {"batch_size": 1, "window": 1, "factor": 1}
        with EchoBuffer(spec, transform=chains, **options) as buffer:
            buffer.put({"a": {(0, 1): IMAGE[:4, :4], "x": np.int64(1)}})
            assert buffer.next_batch()["a"][(0, 1)].shape == (1, 2, 2, 3)


def test_mixed_labels_whose_key_is_a_tuple() -> None:
    spec = {("a", "b"): Field((2,), np.float32), "image": Field((2, 2, 3), np.float32)}
    chains = {"image": [T.MixUp(labels=("a", "b"))]}
    EchoBuffer(spec, batch_size=1, window=1, factor=1, transform=chains).close()
