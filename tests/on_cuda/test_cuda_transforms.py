"""Chains on a device make what they make on the CPU, bit for bit."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest

import echobuf
from chains_for_tests import examples, random_case
from echobuf import transforms as t
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker

IMAGE = {"image": echobuf.Field((9, 11, 3), np.uint8), "label": echobuf.Field((), "i8")}
SCALED = t.ToDtype(np.float32, scale=True)
KERNELS = pytest.mark.parametrize("kernels", ["host", "ptx"])


def make(device, spec, transform, **kwargs):
    options = {"batch_size": 4, "window": 12, "factor": 2, "seed": 7} | kwargs
    return echobuf.EchoBuffer(spec, transform=transform, device=device, **options)


def as_bits(batch):
    """Names, dtypes, shapes and bytes of its leaves."""
    leaves = {name: np.array(leaf) for name, leaf in batch.items()}
    return {
        name: (str(leaf.dtype), leaf.shape, leaf.tobytes())
        for name, leaf in leaves.items()
    }


def batches(device, spec, transform, stacked, **kwargs):
    """Of two epochs; the second begins before the first is drawn to its end."""
    drawn = []
    with make(device, spec, transform, **kwargs) as buffer:
        for most in (3, 10**9):

            def feed(closes):
                with contextlib.suppress(echobuf.ClosedError):
                    buffer.put_batch(stacked, timeout=WAIT_S)
                    if closes:  # after a reset it would be the next epoch's end
                        buffer.close()

            feeder = Worker(feed, most != 3)
            for _, batch in zip(range(most), buffer, strict=False):
                drawn.append(as_bits(batch))
            if most == 3:
                buffer.reset()
            feeder.result()
    return drawn


def expect_same(spec, transform, kernels, **kwargs):
    stacked = examples(spec, 25 if kernels == "host" else 13, 3)
    on_host = batches("cpu", spec, transform, stacked, **kwargs)
    with simulated_cuda(2, kernels):
        assert batches("cuda", spec, transform, stacked, **kwargs) == on_host


@pytest.mark.parametrize(
    ("seed", "kernels"),
    [*((seed, "host") for seed in range(40)), *((seed, "ptx") for seed in range(6))],
)
def test_random_chains_are_those_of_the_cpu(seed, kernels):
    spec, transform = random_case(seed)
    dice = random.Random(seed)
    factor = dice.choice([1, 2, 2.5, 3])
    size = dice.choice([1, 3, 4])
    expect_same(spec, transform, kernels, factor=factor, batch_size=size)


@KERNELS
@pytest.mark.parametrize("mix", [t.MixUp, t.CutMix])
def test_a_mix_behind_several_stages(mix, kernels):
    chain = [t.RandomResizedCrop(8), t.ColorJitter(0.4, 0.4, 0.4), SCALED]
    chain += [t.RandomRotation(30), mix(num_classes=5), t.GaussianNoise()]
    expect_same(IMAGE, {"image": chain}, kernels)


@KERNELS
def test_whole_batches(kernels):
    spec = {name: echobuf.Field((6, *f.shape), f.dtype) for name, f in IMAGE.items()}
    chain = [t.RandomCrop(7), t.ColorJitter(contrast=0.5), SCALED]
    transform = {"image": [*chain, t.MixUp(num_classes=5)]}
    stacked = examples(IMAGE, 40, 5)
    drawn = []
    for device in ("cpu", "cuda"):
        with (
            simulated_cuda(1, kernels),
            make(device, spec, transform, unit="batch", batch_size=None) as buffer,
        ):
            for first, rows in ((0, 6), (6, 4), (10, 1), (11, 6), (17, 0), (17, 5)):
                buffer.put({k: v[first : first + rows] for k, v in stacked.items()})
            buffer.close()
            drawn.append([as_bits(batch) for batch in buffer])
    assert len(drawn[0]) == 12
    assert drawn[1] == drawn[0]


def outcomes(device, seed, chain):
    """Of puts and draws in turns, in one thread: batches, or that there was a wait."""
    dice = random.Random(seed)
    stacked = examples(IMAGE, 60, seed)
    found, put = [], 0
    with make(
        device,
        IMAGE,
        {"image": chain},
        factor="auto",
        max_factor=2,
        window=60,
        batch_size=8,
    ) as buffer:
        while put < 60:
            count = dice.randint(1, 9)
            some = {k: v[put : put + count] for k, v in stacked.items()}
            buffer.put_batch(some, timeout=WAIT_S)
            put += count
            for _ in range(dice.randint(0, 4)):
                try:
                    found.append(as_bits(buffer.next_batch(timeout=0)))
                except TimeoutError:
                    found.append("wait")
        buffer.close()
        found.extend(as_bits(batch) for batch in buffer)
    return found


@pytest.mark.parametrize(
    ("seed", "kernels"), [*((seed, "host") for seed in range(6)), (1, "ptx")]
)
def test_batches_that_a_wait_cuts_in_two_keep_their_partners(seed, kernels):
    chain = [t.RandomCrop(7), SCALED, t.MixUp(num_classes=5)]
    on_host = outcomes("cpu", seed, chain)
    assert "wait" in on_host
    with simulated_cuda(seed, kernels):
        assert outcomes("cuda", seed, chain) == on_host


@KERNELS
def test_an_operation_of_the_users(kernels):
    header = Path(__file__).parents[2] / "examples/custom_operation/vignette.hpp"
    custom = t.Custom(header, "Vignette", {"least": 0.2, "most": 0.8})
    expect_same(IMAGE, {"image": [t.RandomCrop(7), custom, SCALED]}, kernels)


def test_out_and_functions_on_whole_batches():
    def halve(leaf):
        return leaf[:, ::2] / 2

    chain = [t.RandomCrop((8, 7)), SCALED, t.Lambda(halve, shape=(4, 7, 3))]
    stacked = examples(IMAGE, 24, 1)
    drawn = []
    for device in ("cpu", "cuda"):
        with simulated_cuda(seed=1), make(device, IMAGE, {"image": chain}) as buffer:
            buffer.put_batch({k: v[:12] for k, v in stacked.items()})
            buffer.close()
            out = {
                "image": np.empty((4, 4, 7, 3), np.float32),
                "label": np.empty(4, np.int64),
            }
            assert buffer.next_batch(out=out) is out
            wrong = {**out, "image": np.empty((4, 8, 7, 3), np.float32)}
            with pytest.raises(echobuf.SpecError, match=r"out\['image'\].*has shape"):
                buffer.next_batch(out=wrong)
            drawn.append([as_bits(out), *map(as_bits, buffer)])
    assert drawn[1] == drawn[0]
    assert len(drawn[0]) == 6


def test_tensors_of_bfloat16():
    torch = pytest.importorskip("torch")
    from echobuf.torch import EchoLoader

    chain = [t.RandomCrop(7), t.ToDtype("bfloat16", scale=True), t.ToChannelFirst()]
    items = [
        {"image": torch.from_numpy(image)} for image in examples(IMAGE, 12, 1)["image"]
    ]
    drawn = []
    for device in ("cpu", "cuda"):
        with simulated_cuda(seed=1):
            loader = EchoLoader(
                items,
                batch_size=4,
                window=8,
                factor=2,
                device=device,
                transform={"image": chain},
            )
            drawn.append([batch["image"].clone() for batch in loader])
    assert drawn[0][0].dtype is drawn[1][0].dtype is torch.bfloat16
    assert drawn[0][0].shape == (4, 3, 7, 7)
    for host, device in zip(*drawn, strict=True):
        assert torch.equal(host, device)


def test_memory_of_chains_is_counted():
    chain = [t.RandomResizedCrop(8), t.ColorJitter(contrast=0.4)]  # two stages
    needs = {}
    with simulated_cuda():
        for name, transform in (("plain", None), ("chain", {"image": chain})):
            with pytest.raises(echobuf.CapacityError) as error:
                make("cuda", IMAGE, transform, max_bytes=1)
            words = str(error.value).replace(",", "").split()
            needs[name] = int(words[words.index("needs") + 1])
            make("cuda", IMAGE, transform, max_bytes=needs[name]).close()
    between = 4 * 8 * 8 * 3  # images of a batch between the stages
    assert needs["chain"] > needs["plain"] + between


def test_with_cupy_the_kernels_are_compiled_once_and_kept(cupy):
    chain = [t.RandomCrop(7), SCALED, t.ColorJitter(0.4, 0.4), t.ToDtype("bfloat16")]
    stacked = examples(IMAGE, 12, 1)
    on_host = batches("cpu", IMAGE, {"image": chain}, stacked)
    for _ in range(2):
        with make("cuda", IMAGE, {"image": chain}) as buffer:
            buffer.put_batch(stacked)
            buffer.close()
            drawn = [{k: leaf.get() for k, leaf in b.items()} for b in buffer]
            assert list(map(as_bits, drawn))[:3] == on_host[:3]
    draws, *stages = cupy.compiled
    assert "echobuf_draw" in draws
    assert len(stages) == len(set(stages)) == 2
    assert all("echobuf_stage" in stage for stage in stages)
