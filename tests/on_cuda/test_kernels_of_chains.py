"""Kernels of chains, as NVRTC compiles them for each architecture; no GPU is needed."""

from __future__ import annotations

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from echobuf._engine.output import make_output_spec
from echobuf.cuda import codegen
from echobuf.spec import make_spec
from kernels_compiled import ROOT, compile_source, usage

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


def source_of(spec, transform):
    made = make_output_spec(make_spec(spec), transform)
    return codegen.stage_source(plan for _, plan in made.plans)


def compiled(source, architecture):
    options = [o for o in source.options if not o.startswith("-I")]
    kernels = usage(compile_source(source.text, architecture, options))
    asked = {name for entries in source.entries for name in entries if name}
    assert set(kernels) == asked
    return kernels


@pytest.mark.parametrize(
    ("name", "architecture"), list(zip(COMMON, ["sm_75", "sm_90"] * 2, strict=True))
)
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


def test_chains_on_ragged_leaves_do_not_spill():
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
    made = make_output_spec(make_spec(spec), transform)
    source = codegen.stage_source(made.rows, listed=True)
    assert source.text.count("kListed = true") == len(set(source.entries)) >= 5
    for kernel in compiled(source, "sm_75").values():
        assert kernel.spills == 0
        assert kernel.registers <= 64


def test_an_operation_of_the_users_is_built_in():
    header = ROOT / "examples" / "custom_operation" / "vignette.hpp"
    custom = t.Custom(header, "Vignette", {"least": 0.2, "most": 0.8})
    source = source_of(PHOTO, {"image": [t.RandomCrop(64), custom, SCALED]})
    assert f'#include "{header}"' in source.text
    assert f"-I{header.parent}" in source.options


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
