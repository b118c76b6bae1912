"""Kernels of chains, as NVRTC compiles them for each architecture; no GPU is needed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import echobuf
from chains_for_tests import random_case
from echobuf import transforms as t
from echobuf._engine.output import make_output_spec
from echobuf.cuda import codegen
from echobuf.spec import make_spec
from echobuf.transforms import graded
from kernels_compiled import ARCHITECTURES, ROOT, compile_source, usage

PHOTO = {
    "image": echobuf.Field((256, 256, 3), np.uint8),
    "label": echobuf.Field((), np.int64),
}
SCALED = t.ToDtype(np.float32, scale=True)
USUAL = [
    t.RandomHorizontalFlip(),
    SCALED,
    t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
]
COMMON = {  # with the registers that a thread of each may take
    "crop": (
        [t.RandomCrop(224), *USUAL, t.ToDtype("bfloat16"), t.ToChannelFirst()],
        48,
    ),
    "resized": ([t.RandomResizedCrop(224), *USUAL, t.ToChannelFirst()], 64),
    "blurred": ([t.RandomCrop(224), t.GaussianBlur(23), *USUAL], 64),
    "jittered": ([t.RandomCrop(224), t.ColorJitter(0.4, 0.4, 0.4), *USUAL], 64),
}
HALVES = [t.ToDtype("float16"), t.Normalize([0.5] * 3, [0.5] * 3)]
CHAINS = (  # with all operations there are, on images
    [t.RandomCrop(20, padding=2), t.RandomVerticalFlip(), SCALED, *HALVES],
    [t.Resize(20, interpolation="nearest"), SCALED, *HALVES, t.GaussianNoise()],
    [t.RandomAffine(20, shear=(1, 2, 3, 4)), SCALED, t.RandomErasing(value="random")],
    [t.RandomResizedCrop(20), t.CutMix(num_classes=10)],
    [t.ColorJitter(0.1, 0.1, 0.1, 0.1)],
    [t.Invert(), t.Solarize(100), t.Posterize(3), t.AutoContrast(), t.Equalize()],
    [t.Pad(2), t.Grayscale()],
    [graded.GradedColor((0.1,), "contrast"), graded.GradedWarp((3.0,), "rotate")],
    [t.GaussianBlur(23), t.Sharpness(2), t.RandomPerspective(), SCALED],
    [t.RandomResizedCrop(20, interpolation="nearest"), SCALED],
)
FOLLOWED = (  # with all companions of operations that move pixels
    [t.RandomCrop(20, padding=2), t.RandomVerticalFlip(), t.RandomAffine(20)],
    [t.Resize(20), t.RandomResizedCrop(20), graded.GradedWarp((3.0,), "rotate")],
    [t.RandomPerspective()],
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
SEQUENCES = {
    "tokens": echobuf.Field((64,), np.int64),
    "wave": echobuf.Field((64, 2), np.float32),
    "bands": echobuf.Field((8, 64), np.float32),
}


def source_of(spec, transform):
    made = make_output_spec(make_spec(spec), transform, whole=False)
    return codegen.stage_source(plan for _, plan in made.plans)


def compiled(source, architecture):
    options = [o for o in source.options if not o.startswith("-I")]
    kernels = usage(compile_source(source.text, architecture, options))
    asked = {name for entries in source.entries for name in entries if name}
    assert set(kernels) == asked
    return kernels


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", COMMON)
def test_common_chains_do_not_spill(name, architecture, record_property):
    chain, most = COMMON[name]
    kernels = compiled(source_of(PHOTO, {"image": chain}), architecture)
    record_property("kernels", str(kernels))
    print(f"{name} {architecture}: {kernels}")
    for kernel in kernels.values():
        assert kernel.spills == 0
        assert kernel.registers <= most
        assert (
            kernel.shared_bytes <= 16384
        )  # three blocks in the least there is, 48 KiB


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_chains_on_ragged_leaves_do_not_spill(architecture):
    spec = {
        "tokens": echobuf.Field((None,), np.int32),
        "wave": echobuf.Field((None, 2), np.float32),
        "bands": echobuf.Field((None, 80), np.float32),
    }
    window = t.RandomWindow(512)
    mask = t.TokenMask(103, 30_000, special_tokens=(0,))
    transform = {
        "tokens": [mask],
        "part": [t.Source("tokens"), window, mask],
        "attend": [t.Source("tokens"), window.mask(), t.ToDtype(np.float32)],
        "wave": [t.RandomGain(), t.RandomApply([t.GaussianNoise()])],
        "bands": [t.SpecMask(27, 100, time_axis=0), t.ToDtype(np.float16)],
    }
    made = make_output_spec(make_spec(spec), transform, whole=False)
    source = codegen.stage_source(made.rows, listed=True)
    assert source.text.count("kListed = true") == len(set(source.entries)) >= 5
    for kernel in compiled(source, architecture).values():
        assert kernel.spills == 0
        assert kernel.registers <= 64


def test_every_operation_compiles():
    spec = {"image": echobuf.Field((32, 32, 3), np.uint8), "label": PHOTO["label"]}
    text: list[str] = []
    operations: set[str] = set()
    for chain in CHAINS:
        text.append(source_of(spec, {"image": chain}).text)
    window = t.RandomWindow(20)
    mask = t.TokenMask(1, 100, special_tokens=(1, 2))
    sequences = {
        "tokens": [window, mask],
        "wave": [window, t.RandomGain()],
        "bands": [t.SpecMask(3, 6)],
    }
    text.append(source_of(SEQUENCES, sequences).text)
    for chain in FOLLOWED:
        of_image = {**spec, "boxes": echobuf.Field((5, 4), np.float32)}
        chains = {"image": chain, "boxes": [t.BoundingBoxes("image"), *chain]}
        text.append(source_of(of_image, chains).text)
    # In one go, each in a namespace of its own and with names of its own.
    whole = ['#include "echobuf/transform/entry.hpp"\n']
    for number, source in enumerate(text):
        operations |= set(re.findall(r"return echobuf::transform::(\w+)", source))
        lines = [
            line for line in source.splitlines() if not line.startswith("#include")
        ]
        whole.append(
            "\n".join(lines).replace("echobuf_stage", f"stage_{number}") + "\n"
        )
    assert operations == KINDS
    log = compile_source("".join(whole), "sm_75", codegen.STAGE_OPTIONS)
    assert len(usage(log)) >= len(text)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_100"])
def test_random_chains_compile(architecture):
    spec, transform = random_case(ARCHITECTURES.index(architecture) + 100)
    compiled(source_of(spec, transform), architecture)


def test_an_operation_of_the_users_is_built_in():
    header = ROOT / "examples" / "custom_operation" / "vignette.hpp"
    custom = t.Custom(header, "Vignette", {"least": 0.2, "most": 0.8})
    source = source_of(PHOTO, {"image": [t.RandomCrop(64), custom, SCALED]})
    assert f'#include "{header}"' in source.text
    assert f"-I{header.parent}" in source.options
    compiled(source, "sm_90")


def test_stages_that_are_alike_share_their_kernels():
    same = t.RandomCrop(9)
    source = source_of(PHOTO, {"image": [same], "view": [t.Source("image"), same]})
    assert source.entries[0] == source.entries[1]
    assert source.text.count("ECHOBUF_STAGE_MAKE(") == 1


def test_settings_are_all_that_differs():
    sources = [source_of(PHOTO, {"image": [t.RandomCrop(n)]}).text for n in (9, 10)]
    assert sources[0] != sources[1]
    assert len(sources[0].splitlines()) == len(sources[1].splitlines())


def test_without_chains_there_is_nothing_to_compile():
    assert source_of(PHOTO, None).text == ""


def test_arithmetic_is_that_of_the_host():
    assert {"--fmad=false", "--ftz=false"} <= set(codegen.STAGE_OPTIONS)
    assert {"--prec-div=true", "--prec-sqrt=true"} <= set(codegen.STAGE_OPTIONS)
