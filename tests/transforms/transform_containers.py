"""Random chains with containers, as operations and as the reference wants them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from echobuf import transforms
from transform_chains import (
    EXACT,
    Image,
    chains,
    erasing,
    flip,
    jitter,
    normalize,
    values,
)
from transform_engine import Step
from transform_reference import Draw, transform
from transform_reference.containers import CONTAINERS, carried_out


def chain(steps: Sequence[Step]) -> list[Any]:
    """The operations, with those inside of containers."""
    return [operation(step) for step in steps]


def operation(step: Step) -> Any:
    name, options = step
    if name in CONTAINERS:
        inside = [
            chain(part) if isinstance(part, list) else operation(part)
            for part in options["transforms"]
        ]
        options = {**options, "transforms": inside}
    return getattr(transforms, name)(**options)


def expected(
    example: np.ndarray,
    steps: Sequence[Step],
    draw: int,
    *,
    seed: int,
    partner: bool = False,
    epoch: int = 0,
    first: int = 0,
) -> np.ndarray:
    """Return the reference's result for an image [height, width, channels].

    `first` is the number of the first operation; `partner`: for the partner of a mix.
    """

    def draw_of(number: int) -> Draw:
        words = Draw(seed=seed, epoch=epoch, draw=draw, op=number)
        return words.partner if partner else words

    for name, options, number in carried_out(steps, draw_of, itertools.count(first)):
        if name not in ("Layout", "ToChannelFirst"):
            with np.errstate(divide="ignore", invalid="ignore"):
                example = transform(name, options, draw_of(number), example)
    return example


def same_crop(draw: st.DrawFn, image: Image) -> Step:
    """A shift: the crop is as large as the image."""
    size = (image.height, image.width)
    fill = values(draw, image)
    return "RandomCrop", {"size": size, "padding": 1, "fill": fill}


KEPT = (same_crop, flip, erasing, jitter, normalize)
"""Operations that leave shape and dtype; the last one those of floats alone."""


@st.composite
def branches(draw: st.DrawFn, image: Image, depth: int) -> Any:
    """An operation, or a list of them, that leaves shape and dtype as they are."""
    kinds = KEPT[:-1] if image.whole else KEPT
    if depth > 0 and draw(st.integers(0, 3)) == 0:
        return draw(containers(image, depth - 1))
    if draw(st.booleans()):
        return draw(st.sampled_from(kinds))(draw, image)
    count = draw(st.integers(0, 3))
    return [draw(st.sampled_from(kinds))(draw, image) for _ in range(count)]


@st.composite
def containers(draw: st.DrawFn, image: Image, depth: int = 2) -> Step:
    """A container with others inside."""
    name = draw(st.sampled_from(sorted(CONTAINERS)))
    # In another order jitter could see what erasing and normalisation make.
    image.negative = image.negative or (name == "RandomOrder" and not image.whole)
    count = draw(st.integers(1, 3))
    inside = [draw(branches(image, depth)) for _ in range(count)]
    if name == "RandomApply":
        inside = [part for part in inside if part != []] or [flip(draw, image)]
        return name, {"transforms": inside, "p": draw(st.sampled_from([0.0, 0.5, 1.0]))}
    options: dict[str, Any] = {"transforms": inside}
    if name == "RandomChoice" and draw(st.booleans()):
        weights = st.sampled_from([0, 1, 2.5])
        options["p"] = [draw(weights) for _ in inside]
        options["p"][draw(st.integers(0, count - 1))] = 1
    return name, options


@st.composite
def container_chains(draw: st.DrawFn, image: Image) -> list[Step]:
    """Containers with operations before, between and behind; `image` becomes it."""
    steps = draw(chains(image, EXACT, most=2)) if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 2))):
        steps.append(draw(containers(image)))
        if draw(st.booleans()):
            steps += draw(chains(image, EXACT, most=2))
    return steps
