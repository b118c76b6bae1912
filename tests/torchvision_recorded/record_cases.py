"""The calls of torchvision that `record.py` records."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any
from unittest import mock

import numpy as np
import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

MODES = {mode.value: mode for mode in InterpolationMode}
DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "uint8": torch.uint8,
}


class Recorder:
    """Collects inputs, outputs and what was done."""

    def __init__(self, images: dict[str, np.ndarray]) -> None:
        self.images = images
        self.arrays = dict(images)
        self.cases: list[dict[str, Any]] = []
        self.outputs: dict[str, list[np.ndarray]] = {}

    def packed(self) -> dict[str, np.ndarray]:
        """Inputs by name, and the outputs of each dtype in a row: a small file."""
        rows = {f"outputs_{k}": np.concatenate(v) for k, v in self.outputs.items()}
        return {**self.arrays, **rows}

    def tensor(self, name: str) -> torch.Tensor:
        """[channels, height, width]"""
        return torch.from_numpy(self.images[name]).movedim(2, 0).contiguous()

    def add(
        self, op: str, inputs: Any, output: torch.Tensor, **parameters: Any
    ) -> None:
        """One case."""
        dtype = str(output.dtype).removeprefix("torch.")
        if output.ndim == 3:
            output = output.movedim(0, 2)
        if dtype == "bfloat16":
            output = output.contiguous().view(torch.uint16)
        self.outputs.setdefault(dtype, []).append(output.contiguous().numpy().ravel())
        inputs = [inputs] if isinstance(inputs, str) else list(inputs)
        stored = {"dtype": dtype, "shape": list(output.shape)}
        case = {"op": op, "inputs": inputs, "parameters": parameters, **stored}
        self.cases.append(case)

    def function(
        self, op: str, image: str, call: Callable[..., Any], **given: Any
    ) -> None:
        """A function of one image, with the parameters as the reference names them."""
        arguments = dict(given)
        if "interpolation" in arguments:
            arguments["interpolation"] = MODES[arguments["interpolation"]]
        self.add(op, image, call(self.tensor(image), **arguments), **given)


def record_crops(r: Recorder) -> None:
    for image in ("noise", "float_gray"):
        for padding in (2, [3, 1], [0, 4, 5, 2]):
            for mode in ("edge", "reflect", "symmetric"):
                r.function("pad", image, F.pad, padding=padding, padding_mode=mode)
            r.function("pad", image, F.pad, padding=padding, fill=0.5)
    r.function("pad", "noise", F.pad, padding=[1, 2], fill=[200.7, 3.2, 0])
    r.function("pad", "noise", F.pad, padding=[1, 2], fill=127.9)
    for size in (4, [12, 14], [5, 10], [13, 17], [6, 3]):
        for image in ("noise", "noise_gray"):

            def center(x: torch.Tensor, size: Any) -> torch.Tensor:
                return F.center_crop(x, size)

            r.function("center_crop", image, center, size=size)
    r.function("crop", "noise", F.crop, top=3, left=5, height=9, width=7)
    for image in ("noise", "float_gray"):
        r.function("horizontal_flip", image, F.horizontal_flip)
        r.function("vertical_flip", image, F.vertical_flip)
    for image, value in (
        ("noise", [7.9]),
        ("noise", [1.0, 250.0, 30.5]),
        ("float_noise", [0.25, -3.0, 1e-3]),
    ):
        v = torch.tensor(value)[:, None, None]
        out = F.erase(r.tensor(image), i=2, j=4, h=6, w=5, v=v)
        r.add("erase", image, out, box=[2, 4, 6, 5], value=value)


def record_sizes(r: Recorder) -> None:
    by_image = {
        "noise": ([7, 9], [29, 33], [13, 8], [6, 17], 5, [1, 4]),
        "noise_wide": ([13, 17], [16, 20], 24),
        "smooth": ([11, 15], [40, 37], 12),
        "noise_gray": ([7, 9], [20, 31]),
        "float_noise": ([7, 9], [20, 22]),
        "float_gray": ([5, 5], [23, 9]),
        "float_smooth": ([9, 12],),
    }
    for image, sizes in by_image.items():
        for size in sizes:
            for antialias in (True, False):
                r.function("resize", image, F.resize, size=size, antialias=antialias)
            for mode in ("nearest", "nearest-exact"):
                r.function("resize", image, F.resize, size=size, interpolation=mode)
    # Here float32 decides which of two neighbours is the nearest.
    for image, size in (("float_gray", [5, 46]), ("bytes", [41, 9])):
        for mode in ("nearest", "nearest-exact"):
            r.function("resize", image, F.resize, size=size, interpolation=mode)
    for image, size, most in (("noise", 9, 11), ("noise_wide", 30, 32)):
        r.function("resize", image, F.resize, size=size, max_size=most)
    for image, box in (
        ("noise_wide", [3, 5, 20, 17]),
        ("noise_wide", [0, 0, 32, 40]),
        ("smooth", [9, 2, 12, 29]),
        ("float_noise", [1, 4, 8, 11]),
    ):
        given = dict(zip(("top", "left", "height", "width"), box, strict=True))
        for size in ([14, 14], [20, 17]):
            r.function("resized_crop", image, F.resized_crop, **given, size=size)
    # Where it is not done by integers: on a GPU, and on a CPU without AVX2.
    for image in ("noise", "noise_wide"):
        for size in ([7, 9], [16, 20], [29, 33]):
            out = F.resize(r.tensor(image).float(), size).round_().to(torch.uint8)
            r.add("resize", image, out, size=size, passes=False)


def record_warps(r: Recorder) -> None:
    images = ("noise", "noise_square", "float_gray", "smooth")
    for image in images:
        for angle in (0.0, 13.7, -77.3, 90.0, 180.0, 270.0, 359.1):
            for mode in ("nearest", "bilinear"):
                given = {"angle": angle, "interpolation": mode, "fill": [0.0]}
                r.function("rotate", image, F.rotate, **given)
    for center, fill in (([3, 2.5], [9.0]), ([0.0, 0.0], [250.4, 1.0, 30.5])):
        for mode in ("nearest", "bilinear"):
            given = {"angle": 31.3, "interpolation": mode, "center": center}
            r.function("rotate", "noise", F.rotate, **given, fill=fill)
    for image in images:
        for angle, translate, scale, shear in (
            (0.0, [3, -2], 1.0, [0.0, 0.0]),
            (17.3, [0, 0], 1.3, [0.0, 0.0]),
            (-29.1, [2, 1], 0.77, [11.0, 0.0]),
            (5.9, [-1, 4], 1.09, [-7.0, 13.0]),
        ):
            given = {"angle": angle, "translate": translate, "scale": scale}
            for mode in ("nearest", "bilinear"):
                given |= {"shear": shear, "interpolation": mode, "fill": [40.0]}
                r.function("affine", image, F.affine, **given)
    given = {"angle": 21.3, "translate": [1, 2], "scale": 0.9, "shear": [3.0, 4.0]}
    for mode in ("nearest", "bilinear"):
        more = {"interpolation": mode, "center": [2.5, 9.0], "fill": [1.0, 99.0, 7.0]}
        r.function("affine", "noise", F.affine, **given, **more)


JITTERS = {
    "brightness": F.adjust_brightness,
    "contrast": F.adjust_contrast,
    "saturation": F.adjust_saturation,
    "hue": F.adjust_hue,
}


def record_colours(r: Recorder) -> None:
    images = ("noise", "colours", "smooth", "noise_gray", "float_noise", "float_gray")
    factors = dict.fromkeys(JITTERS, (0.0, 0.437, 1.0, 1.3, 1.731))
    factors["hue"] = (-0.5, -0.213, 0.0, 0.071, 0.5)
    for image in images:
        for name, function in JITTERS.items():
            # Floats compress badly, and differ less from one factor to the next.
            for factor in factors[name][1 :: 3 if "float" in image else 1]:
                out = function(r.tensor(image), factor)
                r.add(name, image, out, factor=factor)
    given = {"brightness": 1.137, "contrast": 0.713, "saturation": 1.61, "hue": -0.127}
    for order in list(permutations(range(4)))[::5]:
        for image in ("colours", "float_gray", "float_noise")[: 3 if order[0] else 1]:
            out = r.tensor(image)
            for number in order:
                name = list(JITTERS)[number]
                out = JITTERS[name](out, given[name])
            r.add("color_jitter", image, out, order=order, **given)


def record_values(r: Recorder) -> None:
    for image in ("bytes", "float_noise"):
        for name in ("float32", "float16", "bfloat16"):
            for scale in (False, True):
                out = F.to_dtype(r.tensor(image), DTYPES[name], scale=scale)
                r.add("to_dtype", image, out, dtype=name, scale=scale)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    out = F.normalize(r.tensor("float_noise"), mean, std)
    r.add("normalize", "float_noise", out, mean=mean, std=std)
    out = F.normalize(r.tensor("float_gray"), [0.5], [0.25])
    r.add("normalize", "float_gray", out, mean=[0.5], std=[0.25])
    given = {"mean": mean, "std": std}
    for name in ("float32", "float16", "bfloat16"):
        out = F.to_dtype(r.tensor("bytes3"), torch.float32, scale=True)
        out = F.to_dtype(F.normalize(out, **given), DTYPES[name])
        r.add("prepare", "bytes3", out, **given, dtype=name)
    for image, clip in (("float_noise", True), ("float_noise", False), ("noise", True)):
        x = r.tensor(image)
        normals = torch.randn(x.shape, generator=torch.Generator().manual_seed(5))
        r.arrays["normals"] = normals.movedim(0, 2).contiguous().numpy()
        with mock.patch("torch.randn_like", lambda *_, n=normals, **__: n):
            out = F.gaussian_noise(x, mean=0.02, sigma=0.25, clip=clip)
        given = {"mean": 0.02, "sigma": 0.25, "clip": [0, 1] if clip else None}
        r.add("noise", [image, "normals"], out, **given)


def record_mixes(r: Recorder) -> None:
    """The first row of a batch of two is mixed with the second."""
    labels = torch.tensor([2, 0])
    for weight in (0.0, 0.3, 0.81640625, 1.0):
        mixer = v2.MixUp(alpha=1.0, num_classes=5)
        batch = torch.stack([r.tensor("float_noise"), r.tensor("float_other")])
        given = {"lam": weight, "labels": labels, "batch_size": 2}
        out = mixer.transform(batch, given)[0]
        r.add("mixup", ["float_noise", "float_other"], out, weight=weight)
        out = mixer.transform(labels, given)[0]
        about = {"label": 2, "partner": 0, "num_classes": 5, "weight": weight}
        r.add("mix_labels", [], out, **about)
    places = ((0, 0), (16, 12), (8, 6), (3, 11), (15, 1))
    for place, weight in zip(places, (0.5, 0.04, 0.4, 0.93, 0.0), strict=True):
        record_cutmix(r, place, weight)


def record_cutmix(r: Recorder, place: tuple[int, int], weight: float) -> None:
    mixer = v2.CutMix(alpha=1.0, num_classes=5)
    batch = torch.stack([r.tensor("noise"), r.tensor("noise_other")])
    mixer._dist = mock.Mock(sample=lambda _: torch.tensor([weight]))  # noqa: SLF001 - torchvision's
    drawn = [torch.tensor([x]) for x in place]
    with mock.patch("torch.randint", side_effect=drawn):
        given = mixer.make_params([batch])
    given |= {"labels": torch.tensor([2, 0]), "batch_size": 2}
    names = ["noise", "noise_other"]
    # What was drawn is held in float32 there.
    weight = float(np.float32(weight))
    r.add("cutmix", names, mixer.transform(batch, given)[0], at=place, weight=weight)
    about = {"label": 2, "partner": 0, "num_classes": 5}
    out = mixer.transform(given["labels"], given)[0]
    r.add("mix_labels", [], out, **about, weight=given["lam_adjusted"])


def record_classes(r: Recorder) -> None:
    """Classes whose options leave nothing to chance, by their own names."""
    for image, name, options in (
        ("noise", "RandomCrop", {"size": [19, 25], "padding": [4, 3]}),
        ("noise", "RandomCrop", {"size": [13, 17], "pad_if_needed": True}),
        ("noise", "RandomHorizontalFlip", {"p": 1.0}),
        ("noise", "RandomVerticalFlip", {"p": 0.0}),
        ("noise", "CenterCrop", {"size": 8}),
        ("noise", "Resize", {"size": 7}),
        # No attempt fits, so it falls back to the middle.
        ("noise", "RandomResizedCrop", {"size": 9, "scale": (4, 4)}),
        ("noise", "RandomResizedCrop", {"size": 9, "scale": (4, 4), "ratio": (2, 3)}),
        ("noise_wide", "RandomResizedCrop", {"size": [6, 9], "scale": (4, 4)}),
        ("noise", "RandomRotation", {"degrees": (33.25, 33.25), "fill": 7}),
        ("float_gray", "RandomRotation", {"degrees": (90, 90)}),
        (
            "noise",
            "RandomAffine",
            {"degrees": (-21.5, -21.5), "scale": (1.25, 1.25), "shear": (9.5, 9.5)},
        ),
        (
            "smooth",
            "RandomAffine",
            {"degrees": 0, "shear": (3.5, 3.5, -4.25, -4.25), "center": [3, 4]},
        ),
        ("colours", "ColorJitter", {"brightness": (1.375, 1.375)}),
        ("colours", "ColorJitter", {"contrast": (0.625, 0.625)}),
        ("colours", "ColorJitter", {"saturation": (1.5625, 1.5625)}),
        ("colours", "ColorJitter", {"hue": (0.1875, 0.1875)}),
        ("colours", "ColorJitter", {"brightness": 0, "contrast": (1, 1), "hue": 0}),
        # Every attempt is as large as the image, so nothing is erased.
        ("noise", "RandomErasing", {"p": 1.0, "scale": (1, 1), "ratio": (1, 1)}),
        ("noise", "RandomErasing", {"p": 0.0}),
        ("float_noise", "Normalize", {"mean": [0.5, 0.4, 0.3], "std": [0.2, 2, 0.7]}),
    ):
        out = getattr(v2, name)(**options)(r.tensor(image))
        r.add(name, image, out, **options)


def record_all(r: Recorder) -> None:
    record_crops(r)
    record_sizes(r)
    record_warps(r)
    record_colours(r)
    record_values(r)
    record_mixes(r)
    record_classes(r)
