"""Chains on a device: of whole batches, cut by waits, in callers' arrays, and kept."""

from __future__ import annotations

import random

import numpy as np
import pytest

import echobuf
from chains_for_tests import examples
from chains_on_devices import batches, bits, make
from echobuf import transforms as t
from echobuf.testing import simulated_cuda
from helpers import WAIT_S

IMAGE = {"image": echobuf.Field((9, 11, 3), np.uint8), "label": echobuf.Field((), "i8")}
CLIP = {**IMAGE, "image": echobuf.Field((3, 9, 11, 3), np.uint8)}
SCALED = t.ToDtype(np.float32, scale=True)
MIX = t.MixUp(num_classes=5)
CHAINS = {
    "images": (IMAGE, [t.RandomCrop(7), t.ColorJitter(contrast=0.5), SCALED, MIX]),
    "clips": (CLIP, [t.RandomCrop(7), t.ColorJitter(contrast=0.5), SCALED, MIX]),
    "chosen row by row": (
        IMAGE,
        [
            t.RandomApply([t.RandomHorizontalFlip(1.0), t.ColorJitter(contrast=0.5)]),
            t.ToDtype(np.float32),
            t.RandomApply([MIX]),
        ],
    ),
}


@pytest.mark.parametrize("kernels", ["host", "ptx"])
@pytest.mark.parametrize("name", CHAINS)
def test_whole_batches(name, kernels):
    rows, chain = CHAINS[name]
    spec = {name: echobuf.Field((6, *f.shape), f.dtype) for name, f in rows.items()}
    stacked = examples(rows, 22, 5)
    options = {"unit": "batch", "batch_size": None}
    drawn = []
    for device in ("cpu", "cuda"):
        with (
            simulated_cuda(1, kernels),
            make(device, spec, {"image": chain}, **options) as buffer,
        ):
            for first, count in ((0, 6), (6, 4), (10, 1), (11, 6), (17, 0), (17, 5)):
                buffer.put({k: v[first : first + count] for k, v in stacked.items()})
            buffer.close()
            drawn.append([bits(batch) for batch in buffer])
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
                    found.append(bits(buffer.next_batch(timeout=0)))
                except TimeoutError:
                    found.append("wait")
        buffer.close()
        found.extend(bits(batch) for batch in buffer)
    return found


@pytest.mark.parametrize(
    ("seed", "kernels"), [*((seed, "host") for seed in range(6)), (1, "ptx")]
)
def test_batches_that_a_wait_cuts_in_two_keep_their_partners(seed, kernels):
    chain = [t.RandomCrop(7), SCALED, MIX]
    on_host = outcomes("cpu", seed, chain)
    assert "wait" in on_host
    with simulated_cuda(seed, kernels):
        assert outcomes("cuda", seed, chain) == on_host


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
            drawn.append([bits(out), *map(bits, buffer)])
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


def test_with_cupy_the_kernels_are_compiled_once_and_kept(cupy):
    chain = [t.RandomCrop(7), SCALED, t.ColorJitter(0.4, 0.4), t.ToDtype("bfloat16")]
    stacked = examples(IMAGE, 12, 3)
    on_host = batches("cpu", IMAGE, {"image": chain}, 12)
    for _ in range(2):
        with make("cuda", IMAGE, {"image": chain}) as buffer:
            buffer.put_batch(stacked)
            buffer.close()
            drawn = [{k: leaf.get() for k, leaf in b.items()} for b in buffer]
            assert list(map(bits, drawn))[:3] == on_host[:3]
    draws, *stages = cupy.compiled
    assert "echobuf_draw" in draws
    assert len(stages) == len(set(stages)) == 2
    assert all("echobuf_stage" in stage for stage in stages)
