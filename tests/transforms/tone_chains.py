"""Random tones, padding and grey for chains, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from transform_chains import Image, flip, values
from transform_engine import Step

P = st.sampled_from([0.0, 0.5, 0.9, 1.0])


def pad(draw: st.DrawFn, image: Image) -> Step:
    mode = draw(st.sampled_from(["constant", "edge", "reflect", "symmetric"]))
    most = min(3, min(image.height, image.width) - 1)
    padding = draw(st.lists(st.integers(0, most), min_size=4, max_size=4))
    padding = padding[: draw(st.sampled_from([1, 2, 4]))]
    options = {"padding": padding, "padding_mode": mode}
    if mode == "constant":
        options["fill"] = values(draw, image)
    left, top, right, bottom = (padding * 4)[:4]
    image.height += top + bottom
    image.width += left + right
    return "Pad", options


def _tone(draw: st.DrawFn, name: str, random: str, **options: object) -> Step:
    if draw(st.booleans()):
        return name, options
    return random, {**options, "p": draw(P)}


def invert(draw: st.DrawFn, image: Image) -> Step:
    image.negative = image.negative or not image.whole
    return _tone(draw, "Invert", "RandomInvert")


def solarize(draw: st.DrawFn, image: Image) -> Step:
    most = 255 if image.whole else 1
    threshold = draw(st.floats(0, most, width=16))
    image.negative = image.negative or not image.whole
    return _tone(draw, "Solarize", "RandomSolarize", threshold=threshold)


def posterize(draw: st.DrawFn, image: Image) -> Step:
    return _tone(draw, "Posterize", "RandomPosterize", bits=draw(st.integers(0, 8)))


def autocontrast(draw: st.DrawFn, image: Image) -> Step:
    if image.channels not in (1, 3):
        return invert(draw, image)
    return _tone(draw, "AutoContrast", "RandomAutocontrast")


def equalize(draw: st.DrawFn, image: Image) -> Step:
    return _tone(draw, "Equalize", "RandomEqualize")


def grayscale(draw: st.DrawFn, image: Image) -> Step:
    if image.channels not in (1, 3):
        return flip(draw, image)
    if draw(st.booleans()):
        return "RandomGrayscale", {"p": draw(P)}
    image.channels = draw(st.sampled_from([1, 3]))
    return "Grayscale", {"num_output_channels": image.channels}


TONES = (pad, invert, solarize, posterize, autocontrast, equalize, grayscale)
