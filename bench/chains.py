"""Chains of operations that `augment_chains.py` measures, in no library's own form.

An operation is a name and arguments of `echobuf.transforms`, which are torchvision's
where it has the operation. Each library translates them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

HEIGHT = WIDTH = 256
CHANNELS = 3
# Share of an image that a window of `RandomResizedCrop` covers on average, at its
# default scale and ratio: the mean of 200,000 windows.
WINDOW_SHARE = 0.479
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MIXED = {"MixUp", "CutMix"}  # they need labels, too
BYTES = {"uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4}

Operation = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Chain:
    """Operations on images 256x256x3.

    Args:
        name: of the row; with dtype and layout it is unique.
        dtype: of the stored images; floats lie in 0 ... 1.
        layout: of the stored images, "HWC" or "CHW".
        operations: in order.
        out: measure echobuf's `out=`, too.
        views: results that are made of an image, independently.
    """

    name: str
    dtype: str
    layout: str
    operations: tuple[Operation, ...]
    out: bool = False
    views: int = 1

    @property
    def title(self) -> str:
        """Return the name, and how the images are stored."""
        return f"{self.name}, {self.dtype} {self.layout}"

    @property
    def names(self) -> set[str]:
        """Return the names of all operations."""
        return {name for name, _ in self.operations}

    @property
    def settings(self) -> dict[str, Any]:
        """Return what candidates are given, as JSON values."""
        size, dtype, layout = HEIGHT, self.dtype, self.layout
        for name, arguments in self.operations:
            size = arguments.get("size", size)
            size += 2 * arguments["padding"] if name == "Pad" else 0
            dtype = arguments.get("dtype", dtype)
            layout = "CHW" if name == "ToChannelFirst" else layout
        written = size * size * CHANNELS * BYTES[dtype]
        return {
            "operations": [list(operation) for operation in self.operations],
            "views": self.views,
            "layout": self.layout,
            "dtype": self.dtype,
            "result": {"size": size, "dtype": dtype, "layout": layout},
            "bytes": math.ceil((self._read() + written) * self.views),
        }

    def _read(self) -> float:
        """Return the bytes of stored images that an image of the batch needs."""
        share = 1.0
        for name, arguments in self.operations[:1]:
            if name == "RandomCrop" and arguments["size"] < HEIGHT:
                share = (arguments["size"] / HEIGHT) ** 2
            elif name == "RandomResizedCrop":
                share = WINDOW_SHARE
            elif name == "MixUp":
                share = 2.0
        return share * HEIGHT * WIDTH * CHANNELS * BYTES[self.dtype]


def _classic(dtype: str, *first: Operation) -> tuple[Operation, ...]:
    """Return operations as most training on ImageNet has them."""
    return (
        *(first or (("RandomCrop", {"size": 224}),)),
        ("RandomHorizontalFlip", {}),
        ("ToDtype", {"dtype": dtype, "scale": True}),
        ("Normalize", {"mean": list(MEAN), "std": list(STD)}),
        ("ToChannelFirst", {}),
    )


_CROP: Operation = ("RandomCrop", {"size": 224})
_RESIZED: Operation = ("RandomResizedCrop", {"size": 224})
_JITTER = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4}
_HUE: Operation = ("ColorJitter", {**_JITTER, "hue": 0.1})
_REFLECT = {"size": 256, "padding": 4, "padding_mode": "reflect"}
_FLIP: Operation = ("RandomHorizontalFlip", {})
_TURN = {"degrees": 30}
_LINES = {"degrees": 30, "interpolation": "bilinear"}
_BLUR = {"kernel_size": 23, "sigma": [0.1, 2.0]}
_LABELS = {"num_classes": 1000}
# The second views of T. Chen et al., "A simple framework for contrastive learning of
# visual representations" (arXiv:2002.05709), at half of their strength of colour.
_SIMCLR: tuple[Operation, ...] = (
    _RESIZED,
    ("RandomApply", {"transforms": [_HUE], "p": 0.8}),
    ("RandomGrayscale", {"p": 0.2}),
    ("RandomApply", {"transforms": [("GaussianBlur", _BLUR)], "p": 0.5}),
)

CHAINS = (
    Chain("RandomCrop", "uint8", "CHW", (_CROP,), out=True),
    Chain("RandomCrop", "uint8", "HWC", (_CROP,)),
    Chain("RandomCrop", "float32", "HWC", (_CROP,)),
    Chain("RandomCrop, reflected", "uint8", "HWC", (("RandomCrop", _REFLECT),)),
    Chain("Pad", "uint8", "HWC", (("Pad", {"padding": 4}),)),
    Chain("Pad", "uint8", "CHW", (("Pad", {"padding": 4}),)),
    Chain("RandomHorizontalFlip", "uint8", "CHW", (_FLIP,)),
    Chain("RandomHorizontalFlip", "uint8", "HWC", (_FLIP,)),
    Chain("ToChannelFirst", "uint8", "HWC", (("ToChannelFirst", {}),)),
    Chain("crop, flip, normalise", "uint8", "HWC", _classic("float32"), out=True),
    Chain("crop, flip, normalise", "uint8", "CHW", _classic("float32")),
    Chain("crop, flip, normalise, float16", "uint8", "HWC", _classic("float16")),
    Chain("crop, flip, normalise, bfloat16", "uint8", "HWC", _classic("bfloat16")),
    Chain("Resize", "uint8", "HWC", (("Resize", {"size": 224}),)),
    Chain(
        "RandomResizedCrop, flip, normalise",
        "uint8",
        "HWC",
        _classic("float32", _RESIZED),
    ),
    Chain(
        "RandomResizedCrop, flip, jitter, normalise",
        "uint8",
        "HWC",
        _classic("float32", _RESIZED, _HUE),
    ),
    Chain("RandomRotation, nearest", "uint8", "CHW", (("RandomRotation", _TURN),)),
    Chain("RandomRotation, bilinear", "float32", "CHW", (("RandomRotation", _LINES),)),
    Chain("ColorJitter", "uint8", "HWC", (("ColorJitter", _JITTER),)),
    Chain("ColorJitter with hue", "uint8", "HWC", (_HUE,)),
    Chain("GaussianNoise", "float32", "CHW", (("GaussianNoise", {"sigma": 0.1}),)),
    Chain("GaussianBlur", "uint8", "HWC", (("GaussianBlur", _BLUR),)),
    Chain("RandomErasing", "uint8", "CHW", (("RandomErasing", {}),)),
    Chain("RandomErasing", "float32", "CHW", (("RandomErasing", {}),)),
    Chain("MixUp", "float32", "CHW", (("MixUp", _LABELS),)),
    Chain("CutMix", "float32", "CHW", (("CutMix", _LABELS),)),
    Chain("RandAugment", "uint8", "HWC", (("RandAugment", {}),)),
    Chain("TrivialAugmentWide", "uint8", "HWC", (("TrivialAugmentWide", {}),)),
    Chain("AutoAugment", "uint8", "HWC", (("AutoAugment", {}),)),
    Chain(
        "two views of SimCLR",
        "uint8",
        "HWC",
        _classic("float32", *_SIMCLR),
        views=2,
    ),
)
