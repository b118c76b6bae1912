"""Operations by the names of `echobuf.transforms`, with the options of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from transform_reference import (
    colour,
    crops,
    draws,
    dtypes,
    graded,
    masks,
    mixing,
    neighbours,
    perspective,
    tones,
    warp,
)
from transform_reference import resize as sizes
from transform_reference.words import Draw


def _given(draw: Draw, shape: Any, **options: Any) -> dict[str, Any]:
    """Nothing random about it."""
    return options


Step = tuple[Callable[..., dict[str, Any]], Callable[..., np.ndarray]]
STEPS: dict[str, Step] = {
    "RandomCrop": (draws.random_crop, crops.pad_and_crop),
    "CenterCrop": (_given, crops.center_crop),
    "Resize": (_given, sizes.resize),
    "RandomResizedCrop": (draws.random_resized_crop, sizes.resized_crop),
    "RandomHorizontalFlip": (draws.random_flip, crops.horizontal_flip),
    "RandomVerticalFlip": (draws.random_flip, crops.vertical_flip),
    "RandomRotation": (draws.random_rotation, warp.rotate),
    "RandomAffine": (draws.random_affine, warp.affine),
    "ColorJitter": (draws.color_jitter, colour.color_jitter),
    "RandomErasing": (draws.random_erasing, crops.erase),
    "Normalize": (_given, dtypes.normalize),
    "ToDtype": (_given, dtypes.to_dtype),
    "RandomWindow": (draws.random_window, crops.window),
    "TokenMask": (draws.token_mask, masks.token_mask),
    "SpecMask": (draws.spec_mask, masks.spec_mask),
    "GaussianNoise": (draws.gaussian_noise, mixing.noise),
    "RandomGain": (draws.random_gain, mixing.gain),
    "Pad": (_given, crops.pad),
    "Invert": (tones.drawn, tones.invert),
    "RandomInvert": (tones.randomly, tones.invert),
    "Solarize": (tones.drawn, tones.solarize),
    "RandomSolarize": (tones.randomly, tones.solarize),
    "Posterize": (tones.drawn, tones.posterize),
    "RandomPosterize": (tones.randomly, tones.posterize),
    "AutoContrast": (tones.drawn, tones.autocontrast),
    "RandomAutocontrast": (tones.randomly, tones.autocontrast),
    "Equalize": (tones.drawn, tones.equalize),
    "RandomEqualize": (tones.randomly, tones.equalize),
    "Grayscale": (tones.drawn, tones.grayscale),
    "RandomGrayscale": (tones.rarely, tones.grayscale),
    "GaussianBlur": (neighbours.gaussian_blur_parameters, neighbours.gaussian_blur),
    "Sharpness": (neighbours.sharpness_parameters, neighbours.sharpness),
    "RandomAdjustSharpness": (
        neighbours.random_sharpness_parameters,
        neighbours.sharpness,
    ),
    "RandomPerspective": (
        perspective.random_perspective_parameters,
        perspective.perspective,
    ),
    "GradedWarp": (graded.graded_warp_parameters, warp.warp),
}
"""MixUp and CutMix need two examples: see `draws.mix_up`, `draws.cut_mix`, `mixing`."""


def parameters(
    name: str, options: dict[str, Any], draw: Draw, example: Any
) -> dict[str, Any]:
    """Return an operation's parameters at a draw.

    `example` is a shape; for TokenMask, the tokens.
    """
    return STEPS[name][0](draw, example, **options)


def apply(name: str, example: np.ndarray, what: dict[str, Any]) -> np.ndarray:
    """The example after it."""
    return STEPS[name][1](example, **what)


def transform(
    name: str, options: dict[str, Any], draw: Draw, example: np.ndarray
) -> np.ndarray:
    """Both in one."""
    of = example if name == "TokenMask" else example.shape
    return apply(name, example, parameters(name, options, draw, of))
