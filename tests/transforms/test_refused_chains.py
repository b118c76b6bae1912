"""Chains and arguments that cannot be: each error names what, and what is taken."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

from echobuf import EchobufError, EchoBuffer, Field, OptionError, SpecError
from echobuf import transforms as T

IMAGE = Field((8, 6, 3), np.uint8)
VECTOR = Field((10,), np.float32)


def make(spec: Any, transform: Any) -> EchoBuffer:
    return EchoBuffer(spec, batch_size=2, window=4, transform=transform)


WRONG_CHAINS = [
    (IMAGE, [T.RandomCrop(9)], "RandomCrop.*larger.*padding"),
    (IMAGE, [T.CenterCrop((3, 7))], "CenterCrop.*larger"),
    (IMAGE, [T.RandomCrop(4, padding=7, padding_mode="reflect")], "border of 7"),
    (IMAGE, [T.RandomCrop(4, padding=(7, 0), padding_mode="symmetric")], "border"),
    (IMAGE, [T.RandomCrop(2, fill=(1, 2), padding=1)], "2 numbers in `fill`.*3"),
    (IMAGE, [T.RandomCrop(2, fill=256, padding=1)], "256.*`fill`.*uint8"),
    (IMAGE, [T.RandomCrop(2, fill=-1, padding=1)], "-1.*`fill`.*uint8"),
    (IMAGE, [T.RandomCrop(3, padding=2**30)], "makes it"),
    (IMAGE, [T.RandomCrop(2**31 - 1, padding=2**30)], "makes it"),
    (IMAGE, [T.RandomErasing(value=300)], "300.*`value`.*uint8"),
    (IMAGE, [T.RandomErasing(value="random")], "RandomErasing.*floats.*ToDtype"),
    (IMAGE, [T.Normalize(0.5, 0.5)], "Normalize.*floats.*ToDtype"),
    (IMAGE, [T.RandomGain()], "RandomGain.*floats.*ToDtype"),
    (IMAGE, [T.MixUp(labels=None)], "MixUp.*floats.*ToDtype"),
    (IMAGE, [T.ToDtype("float32"), T.Normalize([1, 2], 1)], "2 numbers in `mean`"),
    (IMAGE, [T.Layout("HW")], "Layout.*2 axes"),
    (IMAGE, [T.CenterCrop(2), T.Layout("CHW")], "too late.*HWC"),
    (IMAGE, [T.Resize(2**31 - 1)], "1,073,741,824 numbers"),
    (IMAGE, [T.Resize(30_000)], "1,073,741,824 numbers"),
    (IMAGE, [T.SpecMask(1, 1)], "SpecMask.*spectrograms"),
    (IMAGE, [T.CenterCrop(2), T.RandomWindow(2)], "RandomWindow.*not for images"),
    (IMAGE, [T.Source("x")], "Source.*comes first"),
    (IMAGE, [T.Lambda(abs), T.CenterCrop(2)], "CenterCrop.*behind a Lambda"),
    (VECTOR, [T.RandomCrop(4)], "RandomCrop.*images"),
    (VECTOR, [T.RandomHorizontalFlip()], "images"),
    (VECTOR, [T.ToChannelFirst()], "images"),
    (VECTOR, [T.SpecMask(1, 1)], "spectrograms"),
    (VECTOR, [T.RandomWindow(11)], "longer than axis 0"),
    (VECTOR, [T.TokenMask(1, 5)], "tokens.*integers"),
    (VECTOR, [T.CutMix(num_classes=3)], "CutMix"),
    (Field((), np.float32), [T.RandomWindow(1)], "sequences"),
    (Field((5, 5, 7), np.uint8), [T.CenterCrop(2)], "1 to 4 channels.*Layout"),
    (Field((4, 4, 17), np.uint8), [T.Layout("HWC")], "16 channels at most"),
    (Field((4, 4, 2), np.uint8), [T.ColorJitter(0.1)], "1 or 3 channels"),
    (Field((0, 4, 3), np.uint8), [T.CenterCrop(2)], "pixels"),
    (Field((4, 4, 3), np.int64), [T.Resize(2)], "takes uint8.*ToDtype"),
    (Field((4, 4, 3), np.int64), [T.RandomRotation(5)], "takes uint8.*ToDtype"),
    (Field((4, 4, 3), np.float64), [T.ColorJitter(0.1)], "takes uint8.*ToDtype"),
    (Field((4, 4, 3), ">f4"), [T.ColorJitter(0.1)], "takes uint8.*ToDtype"),
    (Field((4, 4, 3), ">f4"), [T.Normalize(0, 1)], "floats"),
    (Field((4, 4, 3), ">f4"), [T.ToDtype("float32")], "real numbers"),
    (Field((4,), ">i4"), [T.TokenMask(1, 2)], "tokens"),
    (Field((4, 4), "c8"), [T.ToDtype("float32")], "real numbers"),
    (Field((4, 4), "c8"), [T.RandomCrop(4, padding=1)], "`fill`"),
    (Field((4, 4), [("a", "u1")]), [T.RandomCrop(4, padding=1)], "`fill`"),
    (Field((4, 4), np.int64), [T.RandomCrop(4, padding=1, fill=2**63)], "`fill`"),
    (Field((4,), np.uint8), [T.TokenMask(256, 2)], "256.*`mask_token`.*uint8"),
    (Field((4,), np.int8), [T.TokenMask(1, 200)], "`vocab_size`.*int8"),
    (Field((4,), np.uint8), [T.TokenMask(1, 2).labels()], "`ignore_index`.*uint8"),
    (Field((4,), bool), [T.TokenMask(1, 2)], "tokens"),
    (Field((2**33,), np.uint8), [T.RandomWindow(5)], "1,073,741,824 numbers"),
    (
        Field((6000, 6000, 1), np.uint8),
        [T.ColorJitter(contrast=0.5)],
        "33,554,431 pixels",
    ),
]


@pytest.mark.parametrize(("field", "chain", "message"), WRONG_CHAINS)
def test_a_chain_that_does_not_fit(field: Field, chain: Any, message: str) -> None:
    """The message names the leaf, the operation, its place, and what is there."""
    shown = f"{field.dtype}{list(field.shape)}"
    with pytest.raises(SpecError, match=f"(?s){message}") as caught:
        make({"x": field}, {"x": chain})
    assert f"`transform['x'][{len(chain) - 1}]`" in str(caught.value) or (
        "`transform['x'][0]`" in str(caught.value)
    )
    changed = len(chain) > 1 or isinstance(chain[0], T.Resize)
    assert shown in str(caught.value) or changed


NAN = math.nan
WRONG_ARGUMENTS = [
    (T.RandomCrop, {"size": 0}, "size"),
    (T.RandomCrop, {"size": 2.5}, "size"),
    (T.RandomCrop, {"size": (1, 2, 3)}, "size"),
    (T.RandomCrop, {"size": "12"}, "size"),
    (T.RandomCrop, {"size": None}, "size"),
    (T.RandomCrop, {"size": 2, "padding": -1}, "padding"),
    (T.RandomCrop, {"size": 2, "padding": (1, 2, 3)}, "padding"),
    (T.RandomCrop, {"size": 2, "padding_mode": "wrap"}, "padding_mode"),
    (T.RandomCrop, {"size": 2, "padding_mode": np.array([1, 2])}, "padding_mode"),
    (T.RandomCrop, {"size": 2, "pad_if_needed": 1}, "pad_if_needed"),
    (T.RandomCrop, {"size": 2, "fill": NAN}, "fill"),
    (T.RandomCrop, {"size": 2, "fill": ()}, "fill"),
    (T.RandomCrop, {"size": 2, "fill": 10**400}, "fill"),
    (T.RandomCrop, {"size": 2, "fill": (1, 2), "padding_mode": "edge"}, "fill"),
    (T.CenterCrop, {"size": True}, "size"),
    (T.Resize, {"size": 4, "interpolation": "lanczos"}, "interpolation"),
    (T.Resize, {"size": 4, "max_size": 4}, "max_size"),
    (T.Resize, {"size": (4, 5), "max_size": 9}, "max_size"),
    (T.Resize, {"size": 4, "antialias": None}, "antialias"),
    (T.RandomResizedCrop, {"size": 4, "scale": (0.5, 0.2)}, "scale"),
    (T.RandomResizedCrop, {"size": 4, "scale": 0.5}, "scale"),
    (T.RandomResizedCrop, {"size": 4, "scale": (-0.1, 1)}, "scale"),
    (T.RandomResizedCrop, {"size": 4, "ratio": (0, 1)}, "ratio"),
    (T.RandomResizedCrop, {"size": 4, "ratio": (1e-320, 1)}, "ratio"),
    (T.RandomHorizontalFlip, {"p": -0.01}, "p"),
    (T.RandomHorizontalFlip, {"p": 1.01}, "p"),
    (T.RandomHorizontalFlip, {"p": NAN}, "p"),
    (T.RandomVerticalFlip, {"p": "0.5"}, "p"),
    (T.RandomVerticalFlip, {"p": np.array(1j)}, "p"),
    (T.RandomVerticalFlip, {"p": np.array("a")}, "p"),
    (T.RandomVerticalFlip, {"p": None}, "p"),
    (T.RandomRotation, {"degrees": -1}, "degrees"),
    (T.RandomRotation, {"degrees": (5, 2)}, "degrees"),
    (T.RandomRotation, {"degrees": math.inf}, "degrees"),
    (T.RandomRotation, {"degrees": 5, "expand": True}, "expand"),
    (T.RandomRotation, {"degrees": 5, "center": 3}, "center"),
    (T.RandomRotation, {"degrees": 5, "interpolation": "bicubic"}, "interpolation"),
    (T.RandomPerspective, {"interpolation": "bicubic"}, "interpolation"),
    (T.RandomPerspective, {"distortion_scale": 1.5}, "distortion_scale"),
    (T.GaussianBlur, {"kernel_size": 4}, "kernel_size"),
    (T.GaussianBlur, {"kernel_size": 257}, "kernel_size"),
    (T.GaussianBlur, {"kernel_size": (3, 5, 7)}, "kernel_size"),
    (T.GaussianBlur, {"kernel_size": 3, "sigma": 0}, "sigma"),
    (T.GaussianBlur, {"kernel_size": 3, "sigma": (2, 1)}, "sigma"),
    (T.Sharpness, {"factor": -0.5}, "factor"),
    (T.RandomAdjustSharpness, {"sharpness_factor": 2, "p": 2}, "p"),
    (T.RandomAffine, {"degrees": 5, "translate": (0.1, 1.5)}, "translate"),
    (T.RandomAffine, {"degrees": 5, "translate": 0.1}, "translate"),
    (T.RandomAffine, {"degrees": 5, "scale": (0, 1)}, "scale"),
    (T.RandomAffine, {"degrees": 5, "shear": 90}, "shear"),
    (T.RandomAffine, {"degrees": 5, "shear": (1, 2, 3)}, "shear"),
    (T.ColorJitter, {"brightness": -1}, "brightness"),
    (T.ColorJitter, {"contrast": (0.5, NAN)}, "contrast"),
    (T.ColorJitter, {"saturation": 1e7}, "saturation"),
    (T.ColorJitter, {"hue": 0.6}, "hue"),
    (T.ColorJitter, {"hue": (-0.6, 0)}, "hue"),
    (T.RandomErasing, {"p": 2}, "p"),
    (T.RandomErasing, {"scale": (0, 1.5)}, "scale"),
    (T.RandomErasing, {"ratio": (-1, 1)}, "ratio"),
    (T.RandomErasing, {"value": "mean"}, "value"),
    (T.RandomErasing, {"value": NAN}, "value"),
    (T.Normalize, {"mean": 0, "std": 0}, "std"),
    (T.Normalize, {"mean": 0, "std": (1, 0, 1)}, "std"),
    (T.Normalize, {"mean": 0, "std": NAN}, "std"),
    (T.Normalize, {"mean": 0, "std": 1e-60}, "std"),
    (T.Normalize, {"mean": math.inf, "std": 1}, "mean"),
    (T.Normalize, {"mean": 1e39, "std": 1}, "mean"),
    (T.ToDtype, {"dtype": np.float64}, "dtype"),
    (T.ToDtype, {"dtype": "uint8"}, "dtype"),
    (T.ToDtype, {"dtype": None}, "dtype"),
    (T.ToDtype, {"dtype": "no such"}, "dtype"),
    (T.ToDtype, {"dtype": 12}, "dtype"),
    (T.ToDtype, {"dtype": np.float32, "scale": 1}, "scale"),
    (T.Layout, {"order": "WHC"}, "order"),
    (T.MixUp, {"alpha": 0}, "alpha"),
    (T.MixUp, {"alpha": NAN}, "alpha"),
    (T.CutMix, {"alpha": -1}, "alpha"),
    (T.CutMix, {"num_classes": 0}, "num_classes"),
    (T.RandomWindow, {"length": 0}, "length"),
    (T.RandomWindow, {"length": 2, "axis": 1}, "axis"),
    (T.TokenMask, {"mask_token": -1, "vocab_size": 5}, "mask_token"),
    (T.TokenMask, {"mask_token": 1, "vocab_size": 0}, "vocab_size"),
    (T.TokenMask, {"mask_token": 1, "vocab_size": 5, "p": 1.1}, "p"),
    (T.TokenMask, {"mask_token": 1, "vocab_size": 5, "p_random": 0.3}, "p_random"),
    (
        T.TokenMask,
        {"mask_token": 1, "vocab_size": 5, "special_tokens": range(17)},
        "special_tokens",
    ),
    (T.SpecMask, {"freq_mask_param": -1}, "freq_mask_param"),
    (T.SpecMask, {"num_time_masks": 5}, "num_time_masks"),
    (T.SpecMask, {"value": NAN}, "value"),
    (T.SpecMask, {"time_axis": 1}, "time_axis"),
    (T.GaussianNoise, {"sigma": -1}, "sigma"),
    (T.GaussianNoise, {"mean": NAN}, "mean"),
    (T.GaussianNoise, {"clip": (0, 1)}, "clip"),
    (T.RandomGain, {"min_db": 3, "max_db": 2}, "max_db"),
    (T.RandomGain, {"max_db": 1e4}, "max_db"),
    (T.Lambda, {"function": 3}, "function"),
    (T.Lambda, {"function": abs, "shape": "ab"}, "shape"),
    (T.Lambda, {"function": abs, "dtype": object}, "dtype"),
]


@pytest.mark.parametrize(("kind", "arguments", "name"), WRONG_ARGUMENTS)
def test_an_argument_out_of_range(
    kind: Any, arguments: dict[str, Any], name: str
) -> None:
    with pytest.raises(OptionError, match=kind.__name__) as caught:
        kind(**arguments)
    assert name in str(caught.value)
    assert "must be" in str(caught.value)


SPEC = {"image": IMAGE, "more": {"label": Field((), np.int64)}}
CROP = T.CenterCrop(2)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("flip", "`transform`"),
        (3, "`transform`"),
        (CROP, "several leaves"),
        ([CROP], "several leaves"),
        ({"image": "flip"}, r"`transform\['image'\]`"),
        ({"image": None}, r"`transform\['image'\]`"),
        ({"image": [CROP, None]}, r"`transform\['image'\]`"),
        ({"image": abs}, r"`transform\['image'\]`"),
        ({"image": [T.CenterCrop]}, r"`transform\['image'\]`"),
        ({"image": [[CROP]]}, r"`transform\['image'\]`"),
        ({"imgae": [CROP]}, "'imgae'.*leaves are 'image'"),
        ({"more": [CROP]}, "'more'"),
        ({"image": {"x": [CROP]}}, "x"),
        ({0: [CROP]}, "leaves are"),
        ({"new": [T.Source("imgae")]}, "imgae"),
        ({("image", "x"): [T.Source("image")]}, "dict"),
        ({"more": {"label": []}, ("more", "label"): []}, "two chains"),
        ({"image": [T.CutMix(num_classes=3), T.CutMix(num_classes=3)]}, "2 mixes"),
        ({"image": [T.CutMix(num_classes=3, labels="lable")]}, "lable"),
    ],
)
def test_no_mapping_from_leaves_to_chains(transform: Any, message: str) -> None:
    with pytest.raises(OptionError, match=f"(?s){message}"):
        make(SPEC, transform)


@pytest.mark.parametrize(
    ("chains", "message"),
    [
        ({"image": [T.CutMix()]}, "num_classes"),
        ({("more", "label"): [T.CutMix(num_classes=3)]}, "cuts no image"),
    ],
)
def test_labels_that_do_not_fit(chains: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make(SPEC, chains)


def test_bfloat16_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(OptionError, match=r"ml_dtypes.*pip install"):
        T.ToDtype("bfloat16")


def test_a_batch_that_does_not_fit_in_memory() -> None:
    """A small window, and what is made of it is large."""
    spec = {"x": Field((4, 4, 3), np.uint8)}
    chain = {"x": [T.ToDtype("float32"), T.Resize((18_000, 18_000))]}
    with pytest.raises(EchobufError, match="bytes"):
        EchoBuffer(spec, batch_size=64, window=64, transform=chain)


def test_memory_of_leaf_makers_is_counted() -> None:
    spec = {"x": Field((64, 64, 3), np.uint8)}
    chain = {"x": [T.Resize((64, 64 * 64)), T.RandomRotation(5), T.Resize(4)]}
    options = {"batch_size": 1, "window": 2, "max_bytes": 100_000}
    with EchoBuffer(spec, **options):
        pass
    with pytest.raises(EchobufError, match="max_bytes"):
        EchoBuffer(spec, transform=chain, **options)
