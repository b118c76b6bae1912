"""Containers on a device choose what they choose on the CPU, and cost what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import echobuf
from chains_for_tests import examples
from containers_for_tests import random_containers
from echobuf import transforms as t
from echobuf.cuda.codegen import stage_source
from echobuf.loader_buffer import LoaderBuffer
from echobuf.testing import simulated_cuda
from helpers import WAIT_S

IMAGE = {"image": echobuf.Field((9, 11, 3), np.uint8)}
KERNELS = pytest.mark.parametrize("kernels", ["host", "ptx"])


def make(device: str, spec: Any, transform: Any, **more: Any) -> echobuf.EchoBuffer:
    options = {"batch_size": 4, "window": 12, "factor": 2, "seed": 7} | more
    return echobuf.EchoBuffer(spec, transform=transform, device=device, **options)


def batches(device: str, spec: Any, transform: Any, **more: Any) -> list[Any]:
    with make(device, spec, transform, **more) as buffer:
        buffer.put_batch(examples(spec, 14, 3), timeout=WAIT_S)
        buffer.close()
        return [
            {name: np.array(leaf).tobytes() for name, leaf in batch.items()}
            for batch in buffer
        ]


@pytest.mark.parametrize(
    ("seed", "kernels"),
    [*((seed, "host") for seed in range(30)), *((seed, "ptx") for seed in range(1))],
)
def test_random_chains_are_those_of_the_cpu(seed: int, kernels: str) -> None:
    spec, transform = random_containers(seed)
    more = {"window": 14, "batch_size": 3}
    on_host = batches("cpu", spec, transform, **more)
    with simulated_cuda(2, kernels):
        assert batches("cuda", spec, transform, **more) == on_host


@KERNELS
def test_whole_batches_choose_row_by_row(kernels: str) -> None:
    spec = {"x": echobuf.Field((6, 5, 7, 3), np.uint8)}
    chain = [
        t.RandomApply([t.RandomHorizontalFlip(1.0), t.ColorJitter(contrast=0.5)]),
        t.ToDtype(np.float32),
        t.RandomApply([t.MixUp(labels=None)]),
    ]
    stacked = np.random.default_rng(0).integers(0, 256, (6, 5, 7, 3)).astype(np.uint8)
    drawn = []
    for device in ("cpu", "cuda"):
        more = {"unit": "batch", "batch_size": None, "factor": 3}
        with (
            simulated_cuda(1, kernels),
            make(device, spec, {"x": chain}, **more) as buffer,
        ):
            buffer.put({"x": stacked})
            buffer.close()
            drawn.append([np.array(batch["x"]) for batch in buffer])
    assert len(drawn[0]) == 3
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not (drawn[0][0] == drawn[0][1]).all()


def needed(transform: Any) -> int:
    with pytest.raises(echobuf.CapacityError) as error:
        make("cuda", IMAGE, transform, max_bytes=1)
    words = str(error.value).replace(",", "").split()
    return int(words[words.index("needs") + 1])


CHAINS = [
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


def test_alternatives_that_do_nothing_share_a_kernel() -> None:
    """The first one reads the record, the last one writes the leaf."""
    chain = [t.RandomApply([t.RandomRotation(n)]) for n in (10, 20, 30, 40)]
    spec = echobuf.Field((8, 8, 3), np.float32)
    with LoaderBuffer(spec, batch_size=2, window=4, transform=chain) as buffer:
        source = stage_source(plan for _, plan in buffer.output.plans)
    assert len(source.entries) == 8
    assert len({make for make, _ in source.entries}) == 8 - 1
