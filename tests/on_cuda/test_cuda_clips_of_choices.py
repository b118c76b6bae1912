"""Choices and automatic augmentation of clips on a device, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from test_cuda_transforms import KERNELS, SCALED, expect_same

CLIP = {
    "clip": echobuf.Field((3, 9, 11, 3), np.uint8),
    "label": echobuf.Field((), np.int64),
}
MIXES = [t.MixUp(num_classes=5), t.CutMix(num_classes=5)]
CHAINS = {
    "apply": [t.RandomApply([t.ColorJitter(0.4, 0.4, 0.4)]), t.RandomCrop(7), SCALED],
    "mixes": [t.RandomResizedCrop(8), t.Equalize(), SCALED, t.RandomChoice(MIXES)],
    "tones": [t.RandomOrder([t.AutoContrast(), t.GaussianBlur(3)]), t.ToChannelFirst()],
}


@KERNELS
@pytest.mark.parametrize("name", CHAINS)
def test_choices_are_those_of_the_cpu(name, kernels):
    expect_same(CLIP, {"clip": CHAINS[name]}, kernels)


def test_automatic_augmentation_is_that_of_the_cpu():
    expect_same(CLIP, {"clip": [t.RandAugment(num_ops=1), SCALED]}, "host")
