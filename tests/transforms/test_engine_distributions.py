"""Distributions of the random choices of buffers.

Seeds are fixed, so that each p-value is what it is; one in a thousand draws of a right
engine would fall below the bound.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field
from echobuf import transforms as T
from transform_reference import statistics

LEAST_P = 1e-3
MANY = 4000


def many(example: np.ndarray, chain: Any, count: int = MANY, **more: Any) -> np.ndarray:
    """Return the results of one example, `count` times."""
    options = {"batch_size": count, "window": count, "factor": 1, "seed": 11} | more
    with EchoBuffer(
        Field(example.shape, example.dtype), transform=chain, **options
    ) as b:
        b.put_batch(np.repeat(example[None], count, 0))
        b.close()
        return b.next_batch()


def places(rows: int, columns: int) -> np.ndarray:
    """Each pixel is its own place."""
    y, x = np.indices((rows, columns))
    return np.stack([y, x, y * 0], 2).astype(np.uint8)


def test_crops_begin_anywhere() -> None:
    made = many(places(11, 9), [T.RandomCrop((4, 3))])
    assert statistics.whole_numbers_p(made[:, 0, 0, 0], 8) > LEAST_P
    assert statistics.whole_numbers_p(made[:, 0, 0, 1], 7) > LEAST_P
    both = made[:, 0, 0, 0].astype(int) * 7 + made[:, 0, 0, 1]
    assert statistics.whole_numbers_p(both, 56) > LEAST_P


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("flip", [T.RandomHorizontalFlip, T.RandomVerticalFlip])
def test_flips(flip: Any, p: float) -> None:
    made = many(places(2, 2), [flip(p)])
    axis = 1 if flip is T.RandomHorizontalFlip else 0
    flipped = int(made[:, 0, 0, axis].sum())
    if p in (0.0, 1.0):
        assert flipped == p * MANY
    else:
        counts = np.array([flipped, MANY - flipped])
        assert statistics.chi_squared_p(counts, [p, 1 - p]) > LEAST_P


def test_windows_begin_anywhere() -> None:
    made = many(np.arange(20), [T.RandomWindow(5)])
    assert (np.diff(made, axis=1) == 1).all()
    assert statistics.whole_numbers_p(made[:, 0], 16) > LEAST_P


def test_areas_and_ratios_of_crops() -> None:
    """The slope of a ramp says how large the box was."""
    y, x = np.indices((128, 128), dtype=np.float32)
    ramps = np.stack([y, x, x], 2)
    chain = [T.RandomResizedCrop(8, scale=(0.1, 0.4), antialias=False)]
    made = many(ramps, chain, count=1500)
    height = (made[:, 5, 4, 0] - made[:, 2, 4, 0]) / 3 * 8
    width = (made[:, 4, 5, 1] - made[:, 4, 2, 1]) / 3 * 8
    # Rounding to whole pixels moves an area by a per cent or two.
    area = height * width / 128**2
    assert statistics.kolmogorov_p(area, statistics.uniform(0.1, 0.4)) > LEAST_P
    ends = math.log(3 / 4), math.log(4 / 3)
    ratio = np.log(width / height)
    assert statistics.kolmogorov_p(ratio, statistics.uniform(*ends)) > LEAST_P


def test_areas_of_what_is_erased() -> None:
    image = np.ones((64, 64, 1), np.uint8)
    chain = [T.Layout("HWC"), T.RandomErasing(0.6, scale=(0.05, 0.2), ratio=(0.5, 2))]
    made = many(image, chain)
    shares = (made == 0).mean(axis=(1, 2, 3))
    erased = shares[shares > 0]
    counts = np.array([len(erased), MANY - len(erased)])
    assert statistics.chi_squared_p(counts, [0.6, 0.4]) > LEAST_P
    assert statistics.kolmogorov_p(erased, statistics.uniform(0.05, 0.2)) > LEAST_P


def test_factors_of_brightness() -> None:
    made = many(np.full((1, 1, 3), 0.25, np.float32), [T.ColorJitter(brightness=0.4)])
    factors = made[:, 0, 0, 0] / 0.25
    assert statistics.kolmogorov_p(factors, statistics.uniform(0.6, 1.4)) > LEAST_P


def test_orders_of_colour_steps() -> None:
    """Brightness cuts at 1, and contrast does not commute with that."""
    image = np.full((1, 2, 1), 0.6, np.float32)
    image[0, 1] = 0.2
    pinned = {"brightness": (2.0, 2.0), "contrast": (0.5, 0.5)}
    made = many(image, [T.Layout("HWC"), T.ColorJitter(**pinned)])
    first = np.isclose(made[:, 0, 0, 0], 0.85)  # 1.0 and 0.4 about 0.7
    later = np.isclose(made[:, 0, 0, 0], 1.0)  # 0.5 and 0.3, doubled
    assert (first ^ later).all()
    counts = np.array([first.sum(), later.sum()])
    assert statistics.chi_squared_p(counts) > LEAST_P


def test_noise_is_normal() -> None:
    zeros = np.zeros(500, np.float32)
    made = many(zeros, [T.GaussianNoise(mean=1.0, sigma=2.0)], count=20)
    assert statistics.kolmogorov_p((made.ravel() - 1) / 2, statistics.normal) > LEAST_P
    assert len(np.unique(made)) > 0.99 * made.size


def test_gains() -> None:
    made = many(np.ones(1, np.float32), [T.RandomGain(-12, 6)])[:, 0]
    decibels = 20 * np.log10(made.astype(float))
    assert statistics.kolmogorov_p(decibels, statistics.uniform(-12, 6)) > LEAST_P


def test_shares_of_tokens() -> None:
    tokens = np.full(400, 5, np.int32)
    tokens[::4] = 3
    mask = T.TokenMask(999, 900, p=0.2, p_mask=0.6, p_random=0.3, special_tokens=[3])
    spec = {"x": Field((400,), np.int32)}
    chains = {"x": [mask], "told": [T.Source("x"), mask.labels()]}
    with EchoBuffer(
        spec, batch_size=50, window=50, factor=1, seed=3, transform=chains
    ) as buffer:
        buffer.put_batch({"x": np.repeat(tokens[None], 50, 0)})
        batch = buffer.next_batch()
    made, told = batch["x"], batch["told"]
    assert (made[:, ::4] == 3).all()
    assert (told[:, ::4] == -100).all()
    made, told = (np.delete(x, np.s_[::4], 1) for x in (made, told))
    selected = told == 5
    assert set(np.unique(told)) == {5, -100}
    assert (made[~selected] == 5).all()
    hidden = int((made[selected] == 999).sum())
    kept = int((made[selected] == 5).sum())
    counts = np.array([selected.sum(), (~selected).sum()])
    assert statistics.chi_squared_p(counts, [0.2, 0.8]) > LEAST_P
    counts = np.array([hidden, kept, selected.sum() - hidden - kept])
    lucky = 0.3 / 900  # random, and the same again
    shares = [0.6, 0.1 + lucky, 0.3 - lucky]
    assert statistics.chi_squared_p(counts, shares) > LEAST_P


def test_bands_of_spectrograms() -> None:
    ones = np.ones((20, 30), np.float32)
    chain = [T.SpecMask(freq_mask_param=8, num_time_masks=0, value=0.0)]
    made = many(ones, chain)
    assert (made == made[:, :, :1]).all()
    lengths = (made[:, :, 0] == 0).sum(axis=1)
    assert statistics.whole_numbers_p(lengths, 8) > LEAST_P


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_weights_of_mixes(alpha: float) -> None:
    """Zeros mixed with ones: the sum is the weight of the ones."""
    pixels = np.zeros((MANY, 1, 1, 1), np.float32)
    pixels[::2] = 1
    chain = {"x": [T.Layout("HWC"), T.MixUp(alpha=alpha, labels=None)]}
    spec = {"x": Field((1, 1, 1), np.float32)}
    with EchoBuffer(
        spec, batch_size=MANY, window=MANY, factor=1, seed=2, transform=chain
    ) as buffer:
        buffer.put_batch({"x": pixels})
        buffer.close()
        made = buffer.next_batch()["x"].ravel()
    mixed = made[(made > 0) & (made < 1)]
    assert abs(len(mixed) / MANY - 0.5) < 0.05
    assert statistics.kolmogorov_p(mixed, statistics.symmetric_beta(alpha)) > LEAST_P
