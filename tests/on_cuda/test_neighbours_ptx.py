"""Blur, sharpness, perspective and bicubic as compiled kernels: those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from echobuf.testing import simulated_cuda
from echobuf.transforms.sharpness import GradedSharpness
from kernels_compiled import ARCHITECTURES

SHAPE = (9, 11, 3)
SPEC = {
    "image": echobuf.Field(SHAPE, np.uint8),
    "real": echobuf.Field(SHAPE, np.float32),
    "label": echobuf.Field((), np.int64),
}
FLIP = t.RandomHorizontalFlip()
CHAINS = {
    "blur": [t.GaussianBlur((5, 3))],
    "blur among maps": [
        t.RandomCrop(8, padding=2, fill=3),
        t.GaussianBlur(7, (0.3, 4.0)),
        FLIP,
        t.RandomCrop(5, padding=1, padding_mode="reflect"),
    ],
    "sharpness": [FLIP, t.RandomAdjustSharpness(1.7, p=0.7), t.RandomVerticalFlip()],
    "graded": [GradedSharpness((0.1, 0.5, 0.9)), t.CenterCrop(7)],
    "perspective": [FLIP, t.RandomPerspective(0.6, p=0.8, fill=(1, 0, 1)), FLIP],
    "perspective to the nearest": [t.RandomPerspective(1.0, interpolation="nearest")],
    "bicubic": [t.RandomResizedCrop(6, interpolation="bicubic"), FLIP],
    "bicubic of four": [t.Resize((5, 20), interpolation="bicubic", antialias=False)],
    "all, and a mix": [
        t.GaussianBlur(3),
        t.Sharpness(0.4),
        t.RandomPerspective(),
        t.ToDtype(np.float32, scale=True),
        t.MixUp(num_classes=4),
    ],
    "a blur in a mix": [
        t.ToDtype(np.float32),
        t.GaussianBlur(5, (0.2, 3.0)),
        t.MixUp(num_classes=4),
    ],
}


def drawn(device: str, chain: list[Any]) -> list[dict[str, bytes]]:
    chance = np.random.default_rng(3)
    stacked = {
        "image": chance.integers(0, 256, (12, *SHAPE), np.uint8),
        "real": chance.random((12, *SHAPE), np.float32),
        "label": np.arange(12) % 4,
    }
    mixes = any(isinstance(op, t.MixUp) for op in chain)
    transform = {"image": chain} if mixes else {"image": chain, "real": chain}
    options = {"batch_size": 4, "window": 12, "factor": 2, "seed": 5}
    with echobuf.EchoBuffer(
        SPEC, device=device, transform=transform, **options
    ) as buffer:
        buffer.put_batch(stacked)
        buffer.close()
        return [
            {name: np.array(leaf).tobytes() for name, leaf in batch.items()}
            for batch in buffer
        ]


@pytest.mark.parametrize("kernels", ["host", "ptx"])
@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_those_of_the_cpu(
    name: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = list(CHAINS).index(name)
    architecture = ARCHITECTURES[number % len(ARCHITECTURES)]
    monkeypatch.setattr("echobuf.cuda.simulated.PTX_ARCHITECTURE", architecture)
    with simulated_cuda(1, kernels=kernels):
        on_device = drawn("cuda", CHAINS[name])
    assert on_device == drawn("cpu", CHAINS[name])


def test_a_kernel_larger_than_a_block_keeps_its_weights() -> None:
    """The largest blur, on the host build of the kernels."""
    shape = (130, 133, 1)
    spec = {"x": echobuf.Field(shape, np.float32)}
    image = np.random.default_rng(2).random((1, *shape), np.float32)

    def made(device: str) -> bytes:
        chain = [t.GaussianBlur((255, 9), 30.0)]
        options = {"batch_size": 1, "window": 1, "factor": 1}
        with echobuf.EchoBuffer(
            spec, device=device, transform={"x": chain}, **options
        ) as buffer:
            buffer.put_batch({"x": image})
            buffer.close()
            [batch] = buffer
            return np.array(batch["x"]).tobytes()

    with simulated_cuda(1):
        on_device = made("cuda")
    assert on_device == made("cpu")
