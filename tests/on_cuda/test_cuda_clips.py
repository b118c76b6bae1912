"""Clips on a device are what they are on the CPU, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import echobuf
from chains_for_tests import examples
from clips_for_tests import random_clip_case
from echobuf import transforms as t
from echobuf.testing import simulated_cuda
from test_cuda_transforms import KERNELS, SCALED, as_bits, expect_same, make

CLIP = {
    "clip": echobuf.Field((3, 9, 11, 3), np.uint8),
    "label": echobuf.Field((), np.int64),
}


@pytest.mark.parametrize(
    ("seed", "kernels"),
    [*((seed, "host") for seed in range(12)), *((seed, "ptx") for seed in range(2))],
)
def test_random_chains_are_those_of_the_cpu(seed, kernels):
    spec, transform = random_clip_case(seed + 30, 1 + seed % 3)
    expect_same(spec, transform, kernels, factor=2, batch_size=3)


@KERNELS
def test_a_mix_behind_several_stages(kernels):
    chain = [t.RandomResizedCrop(8), t.ColorJitter(0.4, 0.4, 0.4), SCALED]
    chain += [t.RandomRotation(30), t.CutMix(num_classes=5), t.GaussianNoise()]
    expect_same(CLIP, {"clip": [*chain, t.ToChannelFirst()]}, kernels)


@KERNELS
def test_noise_and_erasing_count_the_elements_of_a_clip(kernels):
    chain = [SCALED, t.RandomErasing(p=0.8, value="random"), t.RandomCrop(6)]
    chain += [t.GaussianNoise()]
    expect_same(CLIP, {"clip": chain}, kernels)


@KERNELS
def test_a_window_of_time_is_a_stage_without_frames(kernels):
    chain = [t.RandomWindow(2), t.RandomHorizontalFlip(), t.ColorJitter(contrast=0.5)]
    expect_same(CLIP, {"clip": [*chain, SCALED]}, kernels)


@KERNELS
def test_whole_batches(kernels):
    spec = {name: echobuf.Field((4, *f.shape), f.dtype) for name, f in CLIP.items()}
    chain = [t.RandomCrop(7), t.ColorJitter(contrast=0.5), SCALED]
    transform = {"clip": [*chain, t.MixUp(num_classes=5)]}
    stacked = examples(CLIP, 8, 5)
    drawn = []
    for device in ("cpu", "cuda"):
        with (
            simulated_cuda(1, kernels),
            make(device, spec, transform, unit="batch", batch_size=None) as buffer,
        ):
            for first, rows in ((0, 4), (4, 3), (7, 1)):
                buffer.put({k: v[first : first + rows] for k, v in stacked.items()})
            buffer.close()
            drawn.append([as_bits(batch) for batch in buffer])
    assert len(drawn[0]) == 6
    assert drawn[1] == drawn[0]


def test_memory_between_stages_is_that_of_all_frames():
    chain = [t.RandomResizedCrop(8), t.ColorJitter(contrast=0.4)]  # two stages
    needs = []
    for frames in (1, 5):
        spec = {"clip": echobuf.Field((frames, 9, 11, 3), np.uint8)}
        with simulated_cuda(), pytest.raises(echobuf.CapacityError) as error:
            make("cuda", spec, {"clip": chain}, max_bytes=1)
        words = str(error.value).replace(",", "").split()
        needs.append(int(words[words.index("needs") + 1]))
    assert needs[1] - needs[0] >= 4 * 4 * 8 * 8 * 3
