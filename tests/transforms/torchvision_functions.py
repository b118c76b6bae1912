"""torchvision's functions, called with the parameters of a draw.

What the reference draws for an operation is what the engine draws: so the two can be
compared for every kind of chance.
"""

# ruff: noqa: E402 (where torchvision is not, nothing is imported)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from torchvision_here import torchvision_or_skip
from transform_reference import Draw, parameters, perspective, tones, warp
from transform_reference.crops import both, sides

torchvision_or_skip()

import torch
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

__all__ = ["F", "torch", "tv_tensors", "v2"]
WARPS = ("RandomRotation", "RandomAffine", "RandomPerspective", "GradedWarp")
_JITTERS = {
    "brightness": F.adjust_brightness,
    "contrast": F.adjust_contrast,
    "saturation": F.adjust_saturation,
    "hue": F.adjust_hue,
}
_TONES: dict[str, Callable[..., torch.Tensor]] = {
    "Invert": F.invert,
    "Solarize": F.solarize,
    "Posterize": F.posterize,
    "AutoContrast": F.autocontrast,
    "Autocontrast": F.autocontrast,
    "Equalize": F.equalize,
    "Grayscale": F.rgb_to_grayscale,
}
_GRADED = {"brightness": "brightness", "contrast": "contrast", "color": "saturation"}


def draw_of(seed: int, number: int) -> Draw:
    """Return the words of operation 1 of a chain whose first is `Layout`."""
    return Draw(seed=seed, epoch=0, draw=number, op=1)


def shape_of(x: torch.Tensor) -> tuple[int, ...]:
    """Return [height, width, channels] of an image, a clip, or of the image of rows."""
    if isinstance(x, tv_tensors.BoundingBoxes | tv_tensors.KeyPoints):
        return (*x.canvas_size, 3)
    return (*x.shape[-2:], x.shape[-3])


def applied(name: str, options: dict[str, Any], words: Draw, x: Any) -> Any:
    """Return what torchvision makes of an operation at a draw."""
    if name.startswith("Graded"):
        return _graded(name, options, words, x)
    what = parameters(name, options, words, shape_of(x))
    if name in _TONES or name.removeprefix("Random") in _TONES:
        given = {key: what[key] for key in what if key != "on"}
        return _TONES[name.removeprefix("Random")](x, **given) if what["on"] else x
    return _FUNCTIONS[name](x, **what)


def _crop(x: Any, *, padding: Any, **what: Any) -> Any:
    keys = ("top", "left", "height", "width")
    box = {key: what.pop(key) for key in keys}
    if any(sides(padding)):
        x = F.pad(x, list(sides(padding)), **what)
    return F.crop(x, **box)


def _mode(what: dict[str, Any], default: str = "bilinear") -> InterpolationMode:
    return InterpolationMode(what.pop("interpolation", default))


def _resize(x: Any, *, size: Any, **what: Any) -> Any:
    """Bicubic of uint8 in floats: torchvision cuts it after each axis."""
    mode = _mode(what)
    if mode is InterpolationMode.BICUBIC and x.dtype == torch.uint8:
        made = F.resize(x.float(), size, mode, **what)
        return made.clamp_(0, 255).round_().to(torch.uint8)
    return F.resize(x, size, mode, **what)


def _resized_crop(x: Any, *, size: Any, **what: Any) -> Any:
    box = {key: what.pop(key) for key in ("top", "left", "height", "width")}
    mode = _mode(what)
    return F.resized_crop(x, **box, size=list(both(size)), interpolation=mode, **what)


def _fill(what: dict[str, Any]) -> Any:
    fill = what.pop("fill", 0)
    return [float(fill)] if np.isscalar(fill) else [*map(float, fill)]


def _rotate(x: Any, **what: Any) -> Any:
    mode, fill = _mode(what, "nearest"), _fill(what)
    return F.rotate(x, interpolation=mode, fill=fill, **what)


def _affine(x: Any, *, translate: Any, shear: Any, **what: Any) -> Any:
    mode, fill = _mode(what, "nearest"), _fill(what)
    moved = {"translate": list(translate), "shear": list(shear)}
    return F.affine(x, interpolation=mode, fill=fill, **moved, **what)


def _perspective(x: Any, *, corners: Any, **what: Any) -> Any:
    if corners is None:
        return x
    starts = [list(place) for place in perspective.corners_of(shape_of(x))]
    ends = [[int(at) for at in place] for place in corners]
    mode, fill = _mode(what), _fill(what)
    return F.perspective(x, starts, ends, interpolation=mode, fill=fill)


def _jitter(x: Any, *, order: Any, **factors: Any) -> Any:
    for name in (list(_JITTERS)[number] for number in order):
        if factors[name] is not None:
            x = _JITTERS[name](x, factors[name])
    return x


def _erase(x: Any, *, box: Any, value: Any) -> Any:
    if box is None:
        return x
    values = torch.as_tensor(value, dtype=torch.float32).reshape(-1, 1, 1)
    return F.erase(x, *box, values)


def _noise(x: Any, *, normals: np.ndarray, **what: Any) -> Any:
    drawn = torch.from_numpy(normals.astype(np.float32)).movedim(-1, -3)
    with mock.patch("torch.randn_like", return_value=drawn):
        return F.gaussian_noise(x, **what)


def _sharpness(x: Any, *, factor: float | None) -> Any:
    return x if factor is None else F.adjust_sharpness(x, factor)


def _flip(function: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, *, flip: function(x) if flip else x


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "CenterCrop": lambda x, *, size: F.center_crop(x, size),
    "ColorJitter": _jitter,
    "GaussianBlur": lambda x, *, kernel_size, sigma: F.gaussian_blur(
        x, list(kernel_size), [sigma, sigma]
    ),
    "GaussianNoise": _noise,
    "Normalize": F.normalize,
    "Pad": F.pad,
    "RandomAdjustSharpness": _sharpness,
    "RandomAffine": _affine,
    "RandomCrop": _crop,
    "RandomErasing": _erase,
    "RandomHorizontalFlip": _flip(F.horizontal_flip),
    "RandomPerspective": _perspective,
    "RandomResizedCrop": _resized_crop,
    "RandomRotation": _rotate,
    "RandomVerticalFlip": _flip(F.vertical_flip),
    "Resize": _resize,
    "Sharpness": _sharpness,
    "ToDtype": lambda x, *, dtype, scale=False: F.to_dtype(
        x, getattr(torch, str(dtype)), scale=scale
    ),
}


def _graded(name: str, options: dict[str, Any], words: Draw, x: Any) -> Any:
    """Return what torchvision's automatic augmentations make of a level."""
    drawn = list(words.words(0))
    levels, signed = options["levels"], options.get("either_sign", True)
    kind = options.get("kind")
    if name == "GradedColor":
        level = tones.level(drawn, levels, either_sign=signed)
        return _JITTERS[_GRADED[str(kind)]](x, 1 + level)
    if kind is None:  # the first word is for a probability, which is 1
        level = tones.level(drawn[1:], levels)
        white = 255 if x.dtype == torch.uint8 else 1
        if name == "GradedPosterize":
            return F.posterize(x, int(level))
        return F.solarize(x, float(np.float32(level)) * white)
    level = tones.level(drawn, levels, either_sign=signed)
    how = {"interpolation": InterpolationMode(options.get("interpolation", "nearest"))}
    if kind == "rotate":
        return F.rotate(x, angle=level, **how)
    degrees = math.degrees(math.atan(level))
    given = {
        "shear_x": {"shear": [degrees, 0.0], "center": [0, 0]},
        "shear_y": {"shear": [0.0, degrees], "center": [0, 0]},
        "translate_x": {"translate": [int(level), 0]},
        "translate_y": {"translate": [0, int(level)]},
    }[kind]
    still = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
    return F.affine(x, **{**still, **given}, **how)


def sure(
    name: str, options: dict[str, Any], words: Draw, shape: tuple[int, ...]
) -> np.ndarray:
    """[height, width, 1]: where the nearest pixel does not hang on the last bits."""
    what = parameters(name, options, words, shape)
    if name == "RandomPerspective":
        return ~perspective.near_tie(shape, what["corners"])[..., None]
    if name == "GradedWarp":
        return ~warp.near_tie(shape, what["matrix"])[..., None]
    of = warp.rotation_matrix if name == "RandomRotation" else warp.affine_matrix
    keys = ("angle", "center", "translate", "scale", "shear")
    matrix = of(shape, **{key: what[key] for key in keys if key in what})
    return ~warp.near_tie(shape, matrix)[..., None]
