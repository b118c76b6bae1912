"""Random operations that look at neighbours, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from transform_chains import Image, flip, values
from transform_engine import Step


def blur(draw: st.DrawFn, image: Image) -> Step:
    columns = 2 * draw(st.integers(0, min(image.width - 1, 5))) + 1
    rows = 2 * draw(st.integers(0, min(image.height - 1, 5))) + 1
    sigma = draw(st.sampled_from([(0.1, 2.0), (0.5, 9.0), (1.25, 1.25)]))
    return "GaussianBlur", {"kernel_size": (columns, rows), "sigma": sigma}


def sharpness(draw: st.DrawFn, image: Image) -> Step:
    if image.channels not in (1, 3):
        return flip(draw, image)
    image.negative = False
    return "Sharpness", {"factor": draw(st.floats(0, 4, width=16))}


def random_sharpness(draw: st.DrawFn, image: Image) -> Step:
    name, options = sharpness(draw, image)
    if name != "Sharpness":
        return name, options
    image.negative = True  # where chance says no
    p = draw(st.sampled_from([0.0, 0.5, 1.0]))
    return "RandomAdjustSharpness", {"sharpness_factor": options["factor"], "p": p}


def perspective(draw: st.DrawFn, image: Image) -> Step:
    return "RandomPerspective", {
        "distortion_scale": draw(st.sampled_from([0.0, 0.3, 0.6])),
        "p": draw(st.sampled_from([0.5, 1.0])),
        "fill": values(draw, image),
    }


def bicubic(draw: st.DrawFn, image: Image) -> Step:
    size = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    image.height, image.width = size
    image.negative = True
    return "Resize", {
        "size": size,
        "interpolation": "bicubic",
        "antialias": draw(st.booleans()),
    }


def bicubic_crop(draw: st.DrawFn, image: Image) -> Step:
    size = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    image.height, image.width = size
    image.negative = True
    return "RandomResizedCrop", {
        "size": size,
        "scale": (draw(st.floats(0.05, 1)), 1.0),
        "interpolation": "bicubic",
        "antialias": draw(st.booleans()),
    }


NEIGHBOURS = (blur, sharpness, random_sharpness, perspective, bicubic, bicubic_crop)
