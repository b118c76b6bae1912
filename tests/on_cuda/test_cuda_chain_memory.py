"""Memory and kernels of chains on a device: as much as is said, shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import echobuf
from chains_on_devices import make
from echobuf import transforms as t
from echobuf.cuda.codegen import stage_source
from echobuf.loader_buffer import LoaderBuffer
from echobuf.testing import simulated_cuda

IMAGE = {"image": echobuf.Field((9, 11, 3), np.uint8)}


def needed(transform: Any, spec: Any = IMAGE) -> int:
    with pytest.raises(echobuf.CapacityError) as error:
        make("cuda", spec, transform, max_bytes=1)
    words = str(error.value).replace(",", "").split()
    return int(words[words.index("needs") + 1])


CHAINS: list[Any] = [
    [t.RandomResizedCrop(8), t.ColorJitter(contrast=0.4)],  # two stages
    [t.RandomApply([t.RandomRotation(30)])],
    [t.RandomOrder([t.ColorJitter(contrast=0.4), t.RandomErasing()]), t.RandomCrop(5)],
    [
        t.RandomCrop(7),
        t.RandomChoice([[], t.RandomErasing(), [t.Resize(9), t.CenterCrop(7)]]),
        t.ToDtype(np.float32),
        t.RandomApply([t.CutMix(labels=None)]),
        t.ToChannelFirst(),
    ],
]


@pytest.mark.parametrize("chain", CHAINS)
def test_memory_is_counted_to_the_byte(chain: list[t.Operation]) -> None:
    transform = {"image": chain}
    with simulated_cuda():
        bytes_needed = needed(transform)
        with pytest.raises(echobuf.CapacityError):
            make("cuda", IMAGE, transform, max_bytes=bytes_needed - 1)
        make("cuda", IMAGE, transform, max_bytes=bytes_needed).close()


def scratch(chain: list[t.Operation]) -> int:
    """Memory beside that of a chain that needs none between stages."""
    return needed({"image": chain}) - needed({"image": [t.RandomHorizontalFlip()]})


def test_branches_and_stages_share_memory_one_after_another() -> None:
    """Ten alternatives of two stages need the image between these once."""
    twice = [t.Resize(13), t.RandomRotation(9), t.Resize((9, 11))]
    last = [t.RandomErasing(), t.ColorJitter(0.2)]
    with simulated_cuda():
        few = scratch([t.RandomChoice([twice] * 2), *last])
        many = scratch([t.RandomChoice([twice] * 10), *last])
    stages = 8 * 3
    image = 4 * 13 * 13 * 3
    assert many - few < stages * 4096 + image  # the settings of stages, and no images


def test_memory_between_stages_is_that_of_all_frames() -> None:
    chain = [t.RandomResizedCrop(8), t.ColorJitter(contrast=0.4)]
    with simulated_cuda():
        one, five = (
            needed({"x": chain}, {"x": echobuf.Field((frames, 9, 11, 3), np.uint8)})
            for frames in (1, 5)
        )
    assert five - one >= 4 * 4 * 8 * 8 * 3


def test_alternatives_that_do_nothing_share_a_kernel() -> None:
    """The first one reads the record, the last one writes the leaf."""
    chain = [t.RandomApply([t.RandomRotation(n)]) for n in (10, 20, 30, 40)]
    spec = echobuf.Field((8, 8, 3), np.float32)
    with LoaderBuffer(spec, batch_size=2, window=4, transform=chain) as buffer:
        source = stage_source(plan for _, plan in buffer.output.plans)
    assert len(source.entries) == 8
    assert len({make for make, _ in source.entries}) == 8 - 1
