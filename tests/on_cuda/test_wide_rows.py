"""Rows wider than a vector: the host makes what single pixels on a device make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf import transforms as T
from echobuf.testing import simulated_cuda

SIZES = st.tuples(st.integers(1, 6), st.integers(1, 300))
FACTORS = st.none() | st.floats(0, 0.9, width=16)
FILLS = st.integers(0, 255)
HOW = st.sampled_from(["nearest", "bilinear"])


@st.composite
def jitters(draw: st.DrawFn) -> list[T.Operation]:
    """All four changes, each or not."""
    brightness, contrast, saturation, hue = (draw(FACTORS) for _ in range(4))
    hue = None if hue is None else hue / 2
    return [T.ColorJitter(brightness, contrast, saturation, hue)]


@st.composite
def warps(draw: st.DrawFn) -> list[T.Operation]:
    """Warps alone, and between maps."""
    degrees, how, fill = draw(st.integers(0, 180)), draw(HOW), draw(FILLS)
    if draw(st.booleans()):
        shear, scale = draw(st.integers(0, 30)), (0.3, 2.0)
        warp = T.RandomAffine(degrees, (0.3, 0.2), scale, shear, how, fill)
    else:
        warp = T.RandomRotation(degrees, how, fill=fill)
    crop = T.RandomCrop(4, padding=3, fill=draw(FILLS))
    return draw(
        st.sampled_from([[warp], [crop, warp], [warp, crop], [warp, T.CenterCrop(1)]])
    )


@st.composite
def noises(draw: st.DrawFn) -> list[T.Operation]:
    """Noise, with and without a limit."""
    sigma, clip = draw(st.floats(0, 2, width=16)), draw(st.booleans())
    return [T.GaussianNoise(sigma=sigma, clip=clip)]


@st.composite
def boxes(draw: st.DrawFn) -> list[T.Operation]:
    """Rectangles of a number, or of noise."""
    value = draw(st.sampled_from([0, 3, "random"]))
    change = [T.ToDtype(np.float32)] if value == "random" else []
    return [*change, T.RandomErasing(p=0.9, scale=(0.05, 0.9), value=value)]


def drawn(device: str, field: echobuf.Field, images: np.ndarray, **options: Any) -> Any:
    """Return the bytes of all batches."""
    with echobuf.EchoBuffer(
        {"x": field}, batch_size=2, window=4, factor=2, device=device, **options
    ) as buffer:
        buffer.put_batch({"x": images})
        buffer.close()
        return [np.array(batch["x"]).tobytes() for batch in buffer]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float16], ids=str)
@pytest.mark.parametrize("chains", [jitters, warps, noises, boxes])
@settings(max_examples=12)
@given(data=st.data(), size=SIZES, seed=st.integers(0, 2**32))
def test_rows_are_those_of_pixels(
    chains: Any, dtype: Any, data: st.DataObject, size: tuple[int, int], seed: int
) -> None:
    order = data.draw(st.sampled_from(["HWC", "CHW"]))
    channels = data.draw(st.sampled_from([1, 3] if chains is jitters else [1, 2, 3, 5]))
    shape = (*size, channels) if order == "HWC" else (channels, *size)
    images = np.random.default_rng(seed).integers(0, 256, (4, *shape), np.uint8)
    if dtype != np.uint8:
        images = (images / np.float32(255)).astype(dtype)
    made = [T.Layout(order), *data.draw(chains())]
    options = {"transform": {"x": made}, "seed": seed}
    field = echobuf.Field(shape, dtype)
    with simulated_cuda(seed):
        on_device = drawn("cuda", field, images, **options)
    assert drawn("cpu", field, images, **options) == on_device
