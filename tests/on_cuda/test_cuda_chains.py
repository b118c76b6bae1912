"""Chains on a device make what they make on the CPU, bit for bit."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augmentations_for_tests import random_augmentations
from chains_for_tests import random_case
from chains_on_devices import expect_same
from clips_for_tests import random_clip_case
from containers_for_tests import random_containers
from echobuf import Field
from echobuf import transforms as t
from echobuf._engine.output import make_output_spec
from echobuf.cuda import codegen
from echobuf.spec import make_spec
from echobuf.transforms import graded
from kernels_compiled import ARCHITECTURES

ROOT = Path(__file__).parents[2]
# Chains by a seed, and the seeds: as PTX one of few kernels, since NVRTC takes seconds.
RANDOM = {
    "images": (random_case, range(40), [2]),
    "containers": (random_containers, range(30), [1]),
    "augmentations": (random_augmentations, range(50), [6]),
    "clips": (lambda seed: random_clip_case(seed + 30, 1 + seed % 3), range(12), [0]),
}
SCALED = t.ToDtype(np.float32, scale=True)
FLIP = t.RandomHorizontalFlip()
MIX = t.MixUp(num_classes=5)
VIGNETTE = t.Custom(
    ROOT / "examples/custom_operation/vignette.hpp",
    "Vignette",
    {"least": 0.2, "most": 0.8},
)
IMAGES: dict[str, list[t.Operation]] = {
    "crop to halves": [
        *(t.RandomCrop(7, padding=2), t.RandomVerticalFlip(), SCALED),
        *(t.ToDtype("float16"), t.Normalize([0.5] * 3, [0.5] * 3)),
    ],
    "nearest, noise": [t.Resize(20, interpolation="nearest"), t.GaussianNoise()],
    "warp, erase": [
        *(t.RandomAffine(20, shear=(1, 2, 3, 4)), SCALED),
        t.RandomErasing(value="random"),
    ],
    "stages, mixup, noise": [
        *(t.RandomResizedCrop(8), t.ColorJitter(0.4, 0.4, 0.4, 0.1), SCALED),
        *(t.RandomRotation(30), MIX, t.GaussianNoise()),
    ],
    "statistics of a partner, before its stage": [
        *(t.RandomCrop(8), t.RandomEqualize(), t.RandomRotation(20), SCALED),
        t.CutMix(num_classes=5),
    ],
    "statistics of a partner, in its stage": [
        *(t.RandomAutocontrast(), t.ColorJitter(contrast=0.5), SCALED, MIX),
    ],
    "tones": [t.Invert(), t.Solarize(100), t.Posterize(3), t.Equalize(), t.Pad(2)],
    "grey": [t.AutoContrast(), t.Grayscale()],
    "graded": [
        graded.GradedColor((0.1, 0.4), "contrast"),
        graded.GradedWarp((3.0, 1.0), "rotate"),
        graded.GradedSharpness((0.1, 0.5, 0.9)),
    ],
    "a blur among maps": [
        *(t.RandomCrop(8, padding=2, fill=3), t.GaussianBlur(7, (0.3, 4.0)), FLIP),
        t.RandomCrop(5, padding=1, padding_mode="reflect"),
    ],
    "neighbours, mixup": [
        *(t.GaussianBlur(3), t.RandomAdjustSharpness(1.7, p=0.7)),
        *(t.RandomPerspective(0.6, p=0.8, fill=(1, 0, 1)), SCALED, MIX),
    ],
    "a blur in a mix": [SCALED, t.GaussianBlur(5, (0.2, 3.0)), MIX],
    "nearest windows": [
        t.RandomPerspective(1.0, interpolation="nearest"),
        t.RandomResizedCrop(20, interpolation="nearest"),
    ],
    "bicubic": [t.RandomResizedCrop(6, interpolation="bicubic"), FLIP],
    "bicubic of four": [t.Resize((5, 20), interpolation="bicubic", antialias=False)],
    "an operation of the user's": [t.RandomCrop(7), VIGNETTE, SCALED],
    "alternating": [
        *(t.RandomCrop(8, padding=1, alternate=True), SCALED),
        *(t.RandomHorizontalFlip(alternate=True), t.ColorJitter(0.4, alternate=True)),
        *(t.RandomResizedCrop(6, alternate=True), t.RandomVerticalFlip()),
        t.RandomApply([t.RandomAffine(9, (0.2, 0.1), (0.7, 1.3), alternate=True)]),
    ],
}
CLIPS: dict[str, list[t.Operation]] = {
    "stages, cutmix, noise": [
        *(t.RandomResizedCrop(8), t.ColorJitter(0.4, 0.4, 0.4), SCALED),
        *(t.RandomRotation(30), t.CutMix(num_classes=5), t.GaussianNoise()),
        t.ToChannelFirst(),
    ],
    "noise and erasing count elements of clips": [
        *(SCALED, t.RandomErasing(p=0.8, value="random"), t.RandomCrop(6)),
        t.GaussianNoise(),
    ],
    "a window of time is a stage without frames": [
        *(t.RandomWindow(2), FLIP, t.ColorJitter(contrast=0.5), SCALED),
    ],
    "applied": [
        *(t.RandomApply([t.ColorJitter(0.4, 0.4, 0.4)]), t.RandomCrop(7), SCALED),
    ],
    "chosen mixes": [
        *(t.RandomCrop(8), SCALED),
        t.RandomChoice([MIX, t.CutMix(num_classes=5)]),
    ],
    "ordered": [t.RandomOrder([t.AutoContrast(), t.GaussianBlur(3)])],
}
FOLLOWED: dict[str, list[t.Operation]] = {  # by boxes and points
    "crop, flip, warp": [t.RandomCrop(8, padding=2), FLIP, t.RandomAffine(20)],
    "sizes, graded warp": [
        *(t.Resize(20), t.RandomResizedCrop(9)),
        graded.GradedWarp((3.0,), "rotate"),
    ],
    "perspective": [t.RandomPerspective()],
}
WINDOW = t.RandomWindow(20, alternate=True)
TOKENS = [WINDOW, t.TokenMask(1, 100, special_tokens=(1, 2))]
SEQUENCES = (
    {
        "tokens": Field((64,), np.int64),
        "wave": Field((64, 2), np.float32),
        "bands": Field((8, 64), np.float32),
    },
    {
        "tokens": TOKENS,
        "labels": [t.Source("tokens"), WINDOW, TOKENS[1].labels()],
        "wave": [WINDOW, t.RandomGain(alternate=True)],
        "bands": [t.SpecMask(3, 6)],
    },
)
KINDS = {  # all of echobuf/transform/stage.hpp but custom ones
    *("Crop", "Flip", "Nearest", "Resample", "Warp", "Normalize", "Scale", "Round"),
    *("Gain", "Noise", "Erase", "Bands", "Jitter", "Mix", "Mask"),
    *("Invert", "Solarize", "Posterize", "AutoContrast", "Equalize", "Grey"),
    *("GradedColor", "GradedWarp"),
    *("Blur", "Sharpen", "Perspective", "NearestWindow"),
    *("CropPoints", "FlipPoints", "ResizePoints", "WindowPoints", "WarpPoints"),
    *("GradedWarpPoints", "PerspectivePoints", "SanitizePoints"),
}
APART = {t.Custom, t.Lambda, t.Operation}  # without a place in random chains


def named_cases() -> Iterator[tuple[str, Any, Any]]:
    """Yield names, specs and chains."""
    label = {"label": Field((), np.int64)}
    image, clip = Field((9, 11, 3), np.uint8), Field((3, 9, 11, 3), np.uint8)
    for name, chain in IMAGES.items():
        yield f"image: {name}", {"image": image, **label}, {"image": chain}
    for name, chain in CLIPS.items():
        yield f"clip: {name}", {"image": clip, **label}, {"image": chain}
    rows = {"boxes": Field((9, 4), np.float32), "points": Field((7, 2), np.float32)}
    for name, chain in FOLLOWED.items():
        boxes = t.BoundingBoxes("image", min_size=1)
        transform = {"boxes": [boxes, *chain], "points": [t.Keypoints("image"), *chain]}
        yield f"rows: {name}", {"image": image, **rows}, {"image": chain, **transform}
    yield "sequences", *SEQUENCES


NAMED = {name: case for name, *case in named_cases()}


@pytest.mark.parametrize(
    ("kind", "seed", "kernels"),
    [
        (kind, seed, kernels)
        for kind, (_, *seeds) in RANDOM.items()
        for kernels, some in zip(("host", "ptx"), seeds, strict=True)
        for seed in some
    ],
)
def test_random_chains_are_those_of_the_cpu(kind, seed, kernels):
    spec, transform = RANDOM[kind][0](seed)
    dice = random.Random(seed)
    factor, size = dice.choice([1, 2, 2.5, 3]), dice.choice([1, 3, 4])
    expect_same(spec, transform, kernels, factor=factor, batch_size=size)


@pytest.mark.parametrize("kernels", ["host", "ptx"])
@pytest.mark.parametrize("name", NAMED)
def test_chains_are_those_of_the_cpu(name, kernels, monkeypatch):
    number = list(NAMED).index(name)
    architecture = ARCHITECTURES[number % len(ARCHITECTURES)]
    monkeypatch.setattr("echobuf.cuda.simulated.PTX_ARCHITECTURE", architecture)
    expect_same(*NAMED[name], kernels)


@pytest.mark.parametrize(
    ("shape", "kernels"), [((130, 200, 3), "host"), ((2, 4100, 1), "ptx")]
)
@pytest.mark.parametrize(
    "tone", [t.Equalize(), t.AutoContrast(), t.Grayscale(3)], ids=repr
)
def test_images_of_several_tiles(tone, shape, kernels):
    transform = {"image": [FLIP, tone, SCALED]}
    spec = {"image": Field(shape, np.uint8)}
    expect_same(spec, transform, kernels, 2, factor=1, batch_size=1, window=2)


def test_a_kernel_larger_than_a_block_keeps_its_weights():
    spec = {"x": Field((3, 130, 1), np.float32)}
    chain = {"x": [t.GaussianBlur((255, 3), 30.0)]}
    expect_same(spec, chain, "host", 2, batch_size=1, window=1, factor=1)


def test_every_kind_of_stage_runs_as_ptx():
    found: set[str] = set()
    for spec, transform in NAMED.values():
        made = make_output_spec(make_spec(spec), transform)
        source = codegen.stage_source(plan for _, plan in made.plans).text
        found |= set(re.findall(r"return echobuf::transform::(\w+)", source))
    assert found == KINDS


def kinds_in(operations: Any) -> Iterator[type]:
    """Yield the types of operations, and of those inside of containers."""
    for operation in operations:
        if isinstance(operation, list | tuple):
            yield from kinds_in(operation)
            continue
        yield type(operation)
        yield from kinds_in(getattr(operation, "branches", ()))


def test_random_chains_hold_every_operation():
    found: set[type] = set()
    for seed in range(200):
        for case, *_ in RANDOM.values():
            for chain in case(seed)[1].values():
                found |= set(kinds_in(chain))
    wanted = {getattr(t, name) for name in t.__all__} - APART
    wanted |= {graded.GradedColor, graded.GradedWarp, graded.GradedSharpness}
    wanted |= {graded.GradedPosterize, graded.GradedSolarize}
    assert wanted - found == set()
