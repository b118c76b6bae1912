"""Chains make the same on a device as on the CPU, bit for bit."""

import numpy as np
import pytest

import echobuf
from chains_for_tests import examples, random_case
from echobuf import transforms as t
from helpers import WAIT_S, Worker

SCALED = t.ToDtype(np.float32, scale=True)
NORMALIZED = [SCALED, t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]


def put(buffer, stacked):
    buffer.put_batch(stacked, timeout=WAIT_S)
    buffer.close()


def same(place, spec, transform, count, **options):
    """Draws all of an epoch on both, and compares the bytes of every leaf."""
    kwargs = {"batch_size": 4, "window": 12, "factor": 2, "seed": 3} | options
    stacked = examples(spec, count, 5)
    with (
        echobuf.EchoBuffer(spec, transform=transform, **kwargs) as here,
        echobuf.EchoBuffer(spec, transform=transform, device="cuda", **kwargs) as there,
    ):
        producers = [Worker(put, buffer, stacked) for buffer in (here, there)]
        drawn = 0
        for want, on_device in zip(here, there, strict=True):
            got = place.host(on_device)
            for name, leaf in want.items():
                assert got[name].dtype == leaf.dtype, name
                assert got[name].shape == leaf.shape, name
                assert got[name].tobytes() == np.ascontiguousarray(leaf).tobytes(), (
                    f"{name} of batch {drawn} of {transform}"
                )
            drawn += 1
        for producer in producers:
            producer.result()
    assert drawn == -(-2 * count // kwargs["batch_size"])


def test_random_chains(place):
    for seed in range(4 if place.simulated else 24):
        same(place, *random_case(seed), count=20)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_every_float_and_what_is_special_of_it(place, dtype):
    """Denormal numbers, infinities and numbers between two that there are."""
    pytest.importorskip("ml_dtypes")
    words = np.random.default_rng(1).integers(0, 2**32, (64, 64), np.uint32)
    words[:, :8] = [0, 1, 0x7FFFFF, 0x7F800000, 0xFF800000, 0x477FF000, 0x33000001, 2]
    floats = words.view(np.float32)
    spec = {"x": echobuf.Field((64,), np.float32)}
    transform = {"x": [t.ToDtype("float32"), t.RandomGain(0, 0), t.ToDtype(dtype)]}
    drawn = []
    for device in ("cpu", "cuda"):
        with echobuf.EchoBuffer(
            spec, batch_size=64, window=64, factor=1, transform=transform, device=device
        ) as buffer:
            put(buffer, {"x": np.where(np.isnan(floats), np.float32(1), floats)})
            drawn.append(buffer.next_batch(timeout=WAIT_S)["x"])
    assert place.host(drawn[1]).tobytes() == drawn[0].tobytes()


def test_photographs(place):
    size, count = (40, 8) if place.simulated else (256, 64)
    out = size * 7 // 8
    spec = {
        "image": echobuf.Field((size, size, 3), np.uint8),
        "label": echobuf.Field((), np.int64),
    }
    jitter = t.ColorJitter(0.4, 0.4, 0.4, 0.1)
    for chain in (
        [t.RandomCrop(out), t.RandomHorizontalFlip(), *NORMALIZED, t.ToChannelFirst()],
        [t.RandomResizedCrop(out), t.RandomHorizontalFlip(), jitter, *NORMALIZED],
        [t.RandomRotation(30, interpolation="bilinear"), *NORMALIZED],
        [t.RandomResizedCrop(out), SCALED, t.CutMix(num_classes=5)],
    ):
        same(place, spec, {"image": chain}, count)
