"""The engine beside torchvision, with the same random choices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from echobuf import transforms as T
from echobuf.transforms import graded
from torchvision_functions import WARPS, applied, draw_of, sure, torch
from transform_engine import rows

SEED, DRAWS = 9, 4
RANDOM = np.random.default_rng(20261121)


def noise(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def smooth(height: int, width: int, channels: int) -> np.ndarray:
    y, x, c = np.ogrid[0:height, 0:width, 0:channels]
    waves = np.sin(x / 5 + c) + np.cos(y / 4 - 2 * c) + np.sin((x + y) / 9)
    return np.rint(127.5 + 42 * waves).astype(np.uint8)


def peaked() -> np.ndarray:
    """Enough pixels to be equalized, with one number that most of them have."""
    image = noise(40, 40, 3)
    image[RANDOM.random((40, 40, 3)) < 0.6] = 77
    image[..., 1] = 200
    return image


LEVELS = np.array([0, 1, 51, 128, 254, 255], np.uint8)
IMAGES = {
    "noise": noise(13, 17, 3),
    "gray": noise(13, 17, 1),
    "square": noise(16, 16, 1),
    "smooth": smooth(24, 31, 3),
    # Every pixel another combination of six values: grays, pure colours, ties.
    "colours": np.stack(np.meshgrid(LEVELS, LEVELS, LEVELS), -1).reshape(12, 18, 3),
    "narrow": RANDOM.integers(90, 120, (21, 30, 3), dtype=np.uint8),
    "peaked": peaked(),
    "float noise": RANDOM.random((13, 17, 3), np.float32),
    "float gray": RANDOM.random((11, 14, 1), np.float32),
    "float smooth": (smooth(16, 20, 3) / np.float32(255)).astype(np.float32),
}
# A video that moves and gets brighter: a mean of all frames is that of none of them.
CLIP = np.stack([smooth(13, 17, 3) // part for part in (4, 3, 2, 1)])
CLIPS = {"clip": CLIP, "float clip": (CLIP / np.float32(255)).astype(np.float32)}

Options = dict[str, Any]
SIZES = ([7, 9], [29, 33], [13, 8], [6, 17], [1, 4], 5)
EXACT: list[tuple[str, Options]] = [
    *(
        ("Pad", {"padding": padding, "padding_mode": mode})
        for padding in (2, [3, 1], [0, 4, 5, 2])
        for mode in ("constant", "edge", "reflect", "symmetric")
    ),
    *(("CenterCrop", {"size": size}) for size in (4, [5, 10], [6, 3])),
    ("RandomCrop", {"size": [9, 7]}),
    ("RandomCrop", {"size": [19, 15], "padding": [4, 3], "pad_if_needed": True}),
    ("RandomHorizontalFlip", {}),
    ("RandomVerticalFlip", {}),
    ("RandomErasing", {"p": 0.8, "scale": (0.1, 0.6), "value": 1}),
    *(
        ("Resize", {"size": size, "interpolation": mode})
        for size in SIZES
        for mode in ("nearest", "nearest-exact")
    ),
    ("ToDtype", {"dtype": "float32", "scale": True}),
    ("ToDtype", {"dtype": "float16", "scale": True}),
    ("ToDtype", {"dtype": "float16"}),
    *((name, {}) for name in ("Invert", "AutoContrast", "Equalize")),
    *((f"Random{name}", {}) for name in ("Invert", "Autocontrast", "Equalize")),
    *(("Posterize", {"bits": bits}) for bits in (0, 1, 4, 8)),
    ("Grayscale", {"num_output_channels": 1}),
    ("Grayscale", {"num_output_channels": 3}),
    ("GradedColor", {"kind": "brightness", "levels": (0.31, 0.9)}),
    ("GradedPosterize", {"levels": (4.0, 7.0)}),
    ("GradedSolarize", {"levels": (0.4, 0.9)}),
]
JITTER = {"brightness": 0.5, "contrast": 0.6, "saturation": 0.7, "hue": 0.3}
WARPED = {
    "RandomRotation": [{"degrees": 180}, {"degrees": 40, "center": [3, 2.5]}],
    "RandomAffine": [
        {"degrees": 20, "translate": (0.2, 0.3), "scale": (0.6, 1.5)},
        {"degrees": 5, "shear": (-10, 10, -5, 20), "center": [2.5, 9.0]},
    ],
    "RandomPerspective": [{"distortion_scale": 0.6, "p": 0.8}],
    "GradedWarp": [
        {"kind": kind, "levels": levels}
        for kind, levels in (
            ("shear_x", (0.1, 0.3)),
            ("shear_y", (0.1, 0.3)),
            ("translate_x", (0.9, 5.9)),
            ("translate_y", (0.9, 4.3)),
            ("rotate", (10.0, 30.0, 133.0)),
        )
    ],
}
CLOSE: list[tuple[str, Options, float]] = [
    *(
        ("Resize", {"size": size, "interpolation": mode, "antialias": smoothed}, 5e-6)
        for size in SIZES
        for mode in ("bilinear", "bicubic")
        for smoothed in (True, False)
    ),
    ("Resize", {"size": 9, "max_size": 11}, 2e-6),
    ("RandomResizedCrop", {"size": [14, 11]}, 2e-6),
    ("RandomResizedCrop", {"size": 9, "scale": (4, 4)}, 2e-6),  # no attempt fits
    *(("ColorJitter", {name: JITTER[name]}, 2e-6) for name in JITTER),
    ("ColorJitter", JITTER, 4e-6),
    ("GaussianBlur", {"kernel_size": (3, 3), "sigma": (0.1, 2.0)}, 1e-6),
    ("GaussianBlur", {"kernel_size": (21, 7), "sigma": (2.0, 30.0)}, 1e-6),
    ("RandomAdjustSharpness", {"sharpness_factor": 1.9}, 1e-6),
    ("Sharpness", {"factor": 0.3}, 1e-6),
    ("GradedColor", {"kind": "color", "levels": (0.42, 0.9)}, 2e-6),
    ("GradedColor", {"kind": "contrast", "levels": (0.33, 0.87)}, 2e-6),
    *(
        (name, {**options, "interpolation": mode}, 1e-4)
        for name, all_options in WARPED.items()
        for options in all_options
        for mode in ("nearest", "bilinear")
    ),
]
FITTING = {  # of images that an operation takes
    "GaussianBlur": lambda x: min(x.shape[-3:-1]) > 10,
    "GaussianNoise": lambda x: x.dtype != np.uint8,
}


def operation(name: str, options: Options) -> Any:
    module = graded if name.startswith("Graded") else T
    if name == "GradedPosterize" or name == "GradedSolarize":
        return getattr(module, name)(options["levels"])
    return getattr(module, name)(**options)


def gaps(name: str, options: Options, image: np.ndarray, order: str) -> float:
    """Return the largest distance of the engine's draws from torchvision's."""
    leaf = image
    if order[-3:] == "CHW":
        leaf = np.ascontiguousarray(np.moveaxis(image, -1, -3))
    chain = [T.Layout(order), operation(name, options)]
    tensor = torch.from_numpy(np.moveaxis(image, -1, -3).copy())
    most = 0.0
    for draw, (_, made) in enumerate(rows([leaf] * DRAWS, chain, seed=SEED)):
        words = draw_of(SEED, draw)
        got = made if order[-3:] == "CHW" else np.moveaxis(made, -1, -3)
        want = applied(name, options, words, tensor).numpy()
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        gap = np.abs(got.astype(np.float64) - want.astype(np.float64))
        if name in WARPS and options["interpolation"] == "nearest":
            counted = sure(name, options, words, image.shape[-3:])
            assert counted.mean() > 0.9
            gap = np.where(np.moveaxis(counted, -1, -3), gap, 0)
        most = max(most, gap.max())
    return most


def fitting(name: str, images: dict[str, np.ndarray]) -> list[np.ndarray]:
    fits = FITTING.get(name, lambda image: True)
    return [image for image in images.values() if fits(image)]


def named(value: Any) -> str:
    return str(value).replace(" ", "")


@pytest.mark.parametrize("order", ["HWC", "CHW"])
@pytest.mark.parametrize(("name", "options"), EXACT, ids=named)
def test_the_same_bits(name: str, options: Options, order: str) -> None:
    for image in fitting(name, IMAGES):
        assert gaps(name, options, image, order) == 0


@pytest.mark.parametrize("order", ["HWC", "CHW"])
@pytest.mark.parametrize(("name", "options", "allowed"), CLOSE, ids=named)
def test_close(name: str, options: Options, allowed: float, order: str) -> None:
    """Floats are summed in another order; bytes differ by one here and there."""
    for image in fitting(name, IMAGES):
        whole = image.dtype == np.uint8
        nearest = options.get("interpolation") == "nearest"
        exact = nearest or name in ("Sharpness", "RandomAdjustSharpness")
        limit = (0 if exact else 1) if whole else allowed
        assert gaps(name, options, image, order) <= limit


@pytest.mark.parametrize("order", ["THWC", "TCHW"])
@pytest.mark.parametrize(
    ("name", "options", "allowed"),
    [
        ("RandomResizedCrop", {"size": [14, 11]}, 2e-6),
        ("Resize", {"size": [7, 9], "antialias": False}, 2e-6),
        ("ColorJitter", JITTER, 4e-6),
        ("RandomRotation", {"degrees": 40, "interpolation": "bilinear"}, 1e-4),
        ("RandomCrop", {"size": 19, "padding": [4, 3]}, 0),
        ("RandomErasing", {"p": 1.0, "value": 1}, 0),
        ("RandomHorizontalFlip", {}, 0),
        ("Equalize", {}, 0),
    ],
    ids=named,
)
def test_clips(name: str, options: Options, allowed: float, order: str) -> None:
    for clip in CLIPS.values():
        whole = clip.dtype == np.uint8
        limit = 1 if whole and allowed else allowed
        assert gaps(name, options, clip, order) <= limit


@pytest.mark.parametrize("clip", [True, False])
def test_noise(clip: bool) -> None:
    options = {"mean": 0.02, "sigma": 0.25, "clip": clip}
    for name in ("float noise", "noise") if clip else ("float noise",):
        image = IMAGES[name]
        tensor = torch.from_numpy(np.moveaxis(image, -1, -3).copy())
        chain = [T.Layout("HWC"), T.GaussianNoise(**options)]
        for draw, (_, made) in enumerate(rows([image] * DRAWS, chain, seed=SEED)):
            want = applied("GaussianNoise", options, draw_of(SEED, draw), tensor)
            gap = np.abs(np.moveaxis(made, -1, -3) - want.numpy().astype(np.float64))
            assert gap.max() <= (1 if image.dtype == np.uint8 else 1e-6)


def test_solarized_and_normalized() -> None:
    """Thresholds and means are of the numbers that images have."""
    for image in IMAGES.values():
        whole = image.dtype == np.uint8
        for threshold in (0.0, 100.5, 128.0, 255.0) if whole else (0.0, 0.5, 1.0):
            for name in ("Solarize", "RandomSolarize"):
                for order in ("HWC", "CHW"):
                    assert gaps(name, {"threshold": threshold}, image, order) == 0
        if not whole:
            mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
            count = image.shape[-1]
            options = {"mean": mean[:count], "std": std[:count]}
            assert gaps("Normalize", options, image, "HWC") == 0
