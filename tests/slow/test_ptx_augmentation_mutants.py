"""Faults in the kernels of clips, blurs, levels, boxes and tones are found."""

from __future__ import annotations

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from echobuf.transforms import graded
from mutated_chains import MutatedChains

SPEC = {
    "clip": echobuf.Field((3, 9, 11, 3), np.uint8),
    "image": echobuf.Field((13, 17, 3), np.uint8),
    "boxes": echobuf.Field((6, 4), np.float32),
    "points": echobuf.Field((5, 2), np.float32),
}
SCALED = t.ToDtype(np.float32, scale=True)
CROP, FLIP = t.RandomCrop((9, 7)), t.RandomHorizontalFlip()
CHAINS = {
    "clip": {"clip": [t.RandomCrop(8), t.ColorJitter(contrast=0.5), SCALED]},
    "noisy clip": {"clip": [SCALED, t.GaussianNoise(sigma=0.2)]},
    "blurred": {"image": [t.GaussianBlur((7, 5), (1.0, 3.0)), SCALED]},
    "sharpened": {"image": [t.RandomAdjustSharpness(3.0, p=0.8), SCALED]},
    "skewed": {"image": [t.RandomPerspective(0.6, p=0.8), SCALED]},
    "levels": {
        "image": [
            graded.GradedWarp((0.2, 4.0), "rotate", True),
            graded.GradedColor((0.3, 0.8), "brightness", True),
        ]
    },
    "rows": {
        "image": [CROP, FLIP],
        "boxes": [t.BoundingBoxes("image", min_size=0), CROP, FLIP],
        "points": [t.Keypoints("image"), CROP, FLIP],
    },
    "tones": {"image": [t.RandomInvert(), t.RandomSolarize(90), t.RandomPosterize(3)]},
}

FOLDER = "include/echobuf/transform/"
STEPS = FOLDER + "stage_kernel.hpp"
MUTANTS = [  # chain, file, what stands there, what the mutant has
    (
        "clip",
        STEPS,
        "block.frame * static_cast<uint64_t>(stage.source.size())",
        "block.frame / 2 * static_cast<uint64_t>(stage.source.size())",
    ),
    (
        "clip",
        STEPS,
        "frame * static_cast<uint64_t>(stage.target.size())",
        "frame / 2 * static_cast<uint64_t>(stage.target.size())",
    ),
    ("clip", STEPS, "row /= frames;", ""),
    (
        "clip",
        FOLDER + "statistic_steps.hpp",
        "rows * block.frames + block.frame",
        "rows + block.frame",
    ),
    ("noisy clip", STEPS, "stage.first_element(block.frame)", "stage.first_element(0)"),
    ("blurred", STEPS, "k <= op.reach(draw, axis)", "k < op.reach(draw, axis)"),
    ("blurred", STEPS, "thread % kCount", "thread"),
    ("blurred", STEPS, "thread < kCount ? Axis::kRow", "thread <= kCount ? Axis::kRow"),
    (
        "blurred",
        FOLDER + "blur.hpp",
        "Border::kReflect, at + k",
        "Border::kEdge, at + k",
    ),
    ("sharpened", FOLDER + "sharpen.hpp", "x < in.width - 1", "x < in.width"),
    ("sharpened", FOLDER + "sharpen.hpp", "k < 4 ? k : k + 1", "k < 5 ? k : k + 1"),
    ("skewed", FOLDER + "perspective.hpp", "d.m[6] * u", "d.m[6] * w"),
    ("levels", FOLDER + "levels.hpp", "turned ? -level : level", "level"),
    ("levels", FOLDER + "levels.hpp", "uint32_t i = 1; i <", "uint32_t i = 2; i <"),
    ("rows", FOLDER + "points.hpp", "static_cast<float>(size - 1)", "float(size)"),
    ("rows", FOLDER + "points.hpp", "i % 2 == 0 ? right : down", "right"),
    (
        "rows",
        FOLDER + "points.hpp",
        "wide > 0.0f && high > 0.0f &&",
        "wide > 0.0f && wide > 0.0f &&",
    ),
    ("tones", FOLDER + "tone.hpp", "v >= ", "v > "),
]


def examples():
    chance = np.random.default_rng(3)
    stacked = {
        name: chance.integers(0, 256, (9, *field.shape)).astype(field.dtype)
        for name, field in SPEC.items()
    }
    corners = chance.integers(-3, 20, (9, 6, 2, 2))  # some have no height
    stacked["boxes"] = np.sort(corners, 2).reshape(9, 6, 4).astype(np.float32)
    stacked["points"] %= 17
    return stacked


KERNELS = MutatedChains(SPEC, examples(), CHAINS, factor=2)


@pytest.mark.parametrize(
    ("chain", "file", "part", "by"), MUTANTS, ids=map(str, range(len(MUTANTS)))
)
def test_a_mutant_is_found(chain, file, part, by, tmp_path, monkeypatch):
    assert KERNELS.find_a_mutant(chain, file, part, by, tmp_path, monkeypatch)


@pytest.mark.parametrize("chain", CHAINS)
def test_without_a_mutant_nothing_is_found(chain):
    assert not KERNELS.find_a_fault(chain)
