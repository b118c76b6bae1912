"""Random choices of each operation: from options and words to explicit parameters."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np

from transform_reference import boxes, samplers
from transform_reference.colour import STEPS
from transform_reference.crops import both, sides
from transform_reference.mixing import cutmix_box
from transform_reference.words import Draw, below

Shape = tuple[int, ...]
Drawn = dict[str, Any]


def angles(degrees: Any) -> tuple[float, ...]:
    """A range: of a number both ways, or as it is given."""
    return (-degrees, degrees) if np.isscalar(degrees) else tuple(degrees)


def lerp(ends: Any, u: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * u


def random_crop(
    draw: Draw,
    shape: Shape,
    *,
    size: Any,
    padding: Any = None,
    pad_if_needed: bool = False,
    alternate: bool = False,
    **same: Any,
) -> Drawn:
    draw = draw.shared(2) if alternate else draw
    height, width = both(size)
    around = boxes.padding_for_crop(
        shape, (height, width), sides(padding), if_needed=pad_if_needed
    )
    left, top, right, bottom = around
    words = draw.words(0)
    at_top = draw.place(words[0], shape[0] + top + bottom - height + 1)
    at_left = draw.place(words[1], shape[1] + left + right - width + 1)
    box = {"top": at_top, "left": at_left, "height": height, "width": width}
    return {**same, "padding": around, **box}


def random_resized_crop(
    draw: Draw,
    shape: Shape,
    *,
    scale: Any = (0.08, 1.0),
    ratio: Any = (3 / 4, 4 / 3),
    alternate: bool = False,
    **same: Any,
) -> Drawn:
    draw = draw.shared(2) if alternate else draw
    return {**same, **boxes.resized_crop_box(draw, shape, scale=scale, ratio=ratio)}


def random_flip(
    draw: Draw, shape: Shape, *, p: float = 0.5, alternate: bool = False
) -> Drawn:
    draw = draw.shared(None) if alternate else draw
    return {"flip": draw.choices(0)[0] < p}


def random_rotation(
    draw: Draw, shape: Shape, *, degrees: Any, alternate: bool = False, **same: Any
) -> Drawn:
    draw = draw.shared(2) if alternate else draw
    return {**same, "angle": lerp(angles(degrees), draw.choices(0)[0])}


def random_affine(
    draw: Draw,
    shape: Shape,
    *,
    degrees: Any,
    translate: Any = None,
    scale: Any = None,
    shear: Any = None,
    alternate: bool = False,
    **same: Any,
) -> Drawn:
    draw = draw.shared(2) if alternate else draw
    u, v = draw.choices(0), draw.choices(1)
    far_x, far_y = translate or (0, 0)
    shear = (0, 0, 0, 0) if shear is None else (*angles(shear), 0, 0)
    return {
        **same,
        "angle": lerp(angles(degrees), u[0]),
        "translate": (
            round(lerp((-far_x * shape[1], far_x * shape[1]), u[1])),
            round(lerp((-far_y * shape[0], far_y * shape[0]), u[2])),
        ),
        "scale": 1.0 if scale is None else lerp(scale, u[3]),
        "shear": (lerp(shear[:2], v[0]), lerp(shear[2:4], v[1])),
    }


def jitter_range(name: str, value: Any) -> tuple[float, float] | None:
    """The range of a factor; None where it changes nothing."""
    middle = 0.0 if name == "hue" else 1.0
    if value is None:
        return None
    if np.isscalar(value):
        lowest = -math.inf if name == "hue" else 0.0
        value = max(middle - value, lowest), middle + value
    return None if value[0] == value[1] == middle else tuple(value)


def color_jitter(
    draw: Draw, shape: Shape, *, alternate: bool = False, **given: Any
) -> Drawn:
    draw = draw.shared(2) if alternate else draw
    u = [*draw.choices(0)[1:], draw.choices(1)[0]]
    ranges = [jitter_range(name, given.get(name)) for name in STEPS]
    order = list(permutations(range(4)))[below(draw.words(0)[0], 24)]
    factors = {
        name: None if ends is None else lerp(ends, at)
        for name, ends, at in zip(STEPS, ranges, u, strict=True)
    }
    return {"order": order, **factors}


def random_erasing(
    draw: Draw,
    shape: Shape,
    *,
    p: float = 0.5,
    scale: Any = (0.02, 0.33),
    ratio: Any = (0.3, 3.3),
    value: Any = 0,
) -> Drawn:
    box = boxes.erased_box(draw, shape, p=p, scale=scale, ratio=ratio)
    if isinstance(value, str):
        value = samplers.normals(draw, math.prod(shape)).reshape(shape)
    return {"box": box, "value": value}


def partner(draw: Draw, place: int, n: int) -> int:
    """The place in the pass of the record that is mixed in."""
    return 0 if n == 1 else (place + 1 + below(draw.words(0)[0], n - 1)) % n


def mix_up(draw: Draw, shape: Shape, *, alpha: float = 1.0) -> Drawn:
    return {"weight": samplers.beta(draw, alpha)}


def cut_mix(draw: Draw, shape: Shape, *, alpha: float = 1.0) -> Drawn:
    """`outside` is the weight for the labels."""
    words = draw.words(0)
    box, outside = cutmix_box(
        shape[0],
        shape[1],
        weight=samplers.beta(draw, alpha),
        at=(below(words[1], shape[1]), below(words[2], shape[0])),
    )
    return {"box": box, "outside": outside}


def random_window(
    draw: Draw, shape: Shape, *, length: int, axis: int = 0, alternate: bool = False
) -> Drawn:
    draw = draw.shared(2) if alternate else draw
    start = draw.place(draw.words(0)[0], shape[axis] - length + 1)
    return {"start": start, "length": length, "axis": axis}


def random_gain(
    draw: Draw,
    shape: Shape,
    *,
    min_db: float = -6.0,
    max_db: float = 6.0,
    alternate: bool = False,
) -> Drawn:
    draw = draw.shared(2) if alternate else draw
    return {"gain": 10 ** (lerp((min_db, max_db), draw.choices(0)[0]) / 20)}


def gaussian_noise(draw: Draw, shape: Shape, **same: Any) -> Drawn:
    return {**same, "normals": samplers.normals(draw, math.prod(shape)).reshape(shape)}


def spec_mask(
    draw: Draw,
    shape: Shape,
    *,
    freq_mask_param: int = 0,
    time_mask_param: int = 0,
    num_freq_masks: int = 1,
    num_time_masks: int = 1,
    value: float = 0.0,
) -> Drawn:
    def band(block: int, longest: int, size: int) -> tuple[int, int]:
        u = draw.uniforms(block)
        wide = u[0] * min(longest, size)
        return int(u[1] * (size - wide)), int(wide)

    last = num_freq_masks + num_time_masks
    return {
        "value": value,
        "frequencies": [
            band(m, freq_mask_param, shape[0]) for m in range(num_freq_masks)
        ],
        "times": [
            band(m, time_mask_param, shape[1]) for m in range(num_freq_masks, last)
        ],
    }


def token_mask(
    draw: Draw,
    tokens: np.ndarray,
    *,
    mask_token: int,
    vocab_size: int,
    p: float = 0.15,
    p_mask: float = 0.8,
    p_random: float = 0.1,
    special_tokens: Any = (),
) -> Drawn:
    """Of the tokens themselves, not of their shape: special ones stay."""
    words = draw.elements(tokens.size).reshape(*tokens.shape, 4)
    u = words * 2.0**-32
    random = (words[..., 2] * np.uint64(vocab_size)) >> np.uint64(32)
    what = u[..., 1]
    otherwise = np.where(what < p_mask + p_random, random.astype(np.int64), tokens)
    return {
        "selected": (u[..., 0] < p) & ~np.isin(tokens, special_tokens),
        "instead": np.where(what < p_mask, mask_token, otherwise),
    }
