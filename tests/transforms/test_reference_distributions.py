"""Distributions of the reference's random choices, and the power of these tests."""

from __future__ import annotations

import math

import numpy as np
import pytest

from transform_reference import Draw, parameters
from transform_reference.draws import cut_mix, mix_up, partner
from transform_reference.samplers import beta, normals
from transform_reference.statistics import (
    chi_squared_p,
    kolmogorov_p,
    normal,
    symmetric_beta,
    uniform,
    whole_numbers_p,
)

COUNT = 3000
LOW = 1e-3
"""The draws are always the same: a p-value is not another one in the next run."""

IMAGE = (60, 80, 3)


def drawn(name: str, shape=IMAGE, count: int = COUNT, **options) -> list[dict]:
    return [parameters(name, options, Draw(5, 1, d, 3), shape) for d in range(count)]


def test_statistics_can_fail() -> None:
    """Close to what is asked for, and rejected."""
    u = np.random.default_rng(2).random(100_000)
    assert kolmogorov_p(u, uniform(0, 1)) > LOW
    assert kolmogorov_p(u**1.03, uniform(0, 1)) < LOW
    die = np.floor(u * 6).astype(int)
    assert whole_numbers_p(die, 6) > LOW
    assert whole_numbers_p(np.where(u > 0.9995, 0, die), 6) > LOW
    assert whole_numbers_p(np.where(u > 0.98, 0, die), 6) < LOW
    assert chi_squared_p(np.array([8000, 2000]), [0.8, 0.2]) > LOW
    assert chi_squared_p(np.array([8200, 1800]), [0.8, 0.2]) < LOW


def test_statistics_are_calibrated() -> None:
    """p-values of what is right are even."""
    rng = np.random.default_rng(1)
    distances = [kolmogorov_p(rng.random(200), uniform(0, 1)) for _ in range(400)]
    squares = [whole_numbers_p(rng.integers(0, 9, 900), 9) for _ in range(400)]
    assert kolmogorov_p(np.array(distances), uniform(0, 1)) > LOW
    assert kolmogorov_p(np.array(squares), uniform(0, 1)) > LOW


def test_crop_offsets() -> None:
    boxes = drawn("RandomCrop", size=50, padding=2)
    assert whole_numbers_p([box["top"] for box in boxes], 15) > LOW
    assert whole_numbers_p([box["left"] for box in boxes], 35) > LOW
    at = [box["top"] * 35 + box["left"] for box in boxes]
    assert np.corrcoef(*np.divmod(at, 35))[0, 1] ** 2 * COUNT < 12


def test_flips() -> None:
    flips = sum(what["flip"] for what in drawn("RandomHorizontalFlip", p=0.3))
    assert chi_squared_p(np.array([flips, COUNT - flips]), [0.3, 0.7]) > LOW
    for p in (0.0, 1.0):
        assert {w["flip"] for w in drawn("RandomVerticalFlip", p=p)} == {p == 1}


def test_resized_crops() -> None:
    """Large images, so that whole sides are as good as real ones."""
    shape = (6000, 8000, 3)
    boxes = drawn("RandomResizedCrop", shape, size=8, scale=(0.1, 0.3), ratio=(0.5, 3))
    h, w = (np.array([box[k] for box in boxes], float) for k in ("height", "width"))
    assert kolmogorov_p(h * w / (6000 * 8000), uniform(0.1, 0.3)) > LOW
    assert kolmogorov_p(np.log(w / h), uniform(math.log(0.5), math.log(3))) > LOW
    top = np.array([box["top"] for box in boxes]) / (6001 - h)
    left = np.array([box["left"] for box in boxes]) / (8001 - w)
    assert kolmogorov_p(top, uniform(0, 1)) > LOW
    assert kolmogorov_p(left, uniform(0, 1)) > LOW


def test_erased_boxes() -> None:
    whats = drawn(
        "RandomErasing", (6000, 8000, 1), p=0.7, scale=(0.02, 0.2), ratio=(0.3, 2)
    )
    boxes = [what["box"] for what in whats if what["box"] is not None]
    counts = np.array([len(boxes), COUNT - len(boxes)])
    assert chi_squared_p(counts, [0.7, 0.3]) > LOW
    h, w = np.array(boxes, float)[:, 2:].T
    assert kolmogorov_p(h * w / (6000 * 8000), uniform(0.02, 0.2)) > LOW
    assert kolmogorov_p(np.log(h / w), uniform(math.log(0.3), math.log(2))) > LOW


def test_places_of_boxes() -> None:
    """Boxes of 4 x 4 in 8 x 9: every place, up to both ends."""
    given = {"scale": (16 / 72, 16 / 72), "ratio": (1, 1)}
    for name in ("RandomResizedCrop", "RandomErasing"):
        more = {"size": 4} if name == "RandomResizedCrop" else {"p": 1.0}
        whats = drawn(name, (8, 9, 1), **given, **more)
        boxes = [what.get("box") or (what["top"], what["left"]) for what in whats]
        assert whole_numbers_p([box[0] for box in boxes], 5) > LOW
        assert whole_numbers_p([box[1] for box in boxes], 6) > LOW


def test_affine() -> None:
    given = {"degrees": 30, "translate": (0.1, 0.2), "scale": (0.8, 1.3)}
    whats = drawn("RandomAffine", **given, shear=(-5, 5, 2, 3))
    for name, low, high in (("angle", -30, 30), ("scale", 0.8, 1.3)):
        sample = np.array([what[name] for what in whats])
        assert kolmogorov_p(sample, uniform(low, high)) > LOW
    for axis, low, high in ((0, -5, 5), (1, 2, 3)):
        sample = np.array([what["shear"][axis] for what in whats])
        assert kolmogorov_p(sample, uniform(low, high)) > LOW
    for axis, far in ((0, 8), (1, 12)):
        # Rounded, so both ends get half of what the others get.
        counts = np.bincount([what["translate"][axis] + far for what in whats])
        shares = np.r_[0.5, np.ones(2 * far - 1), 0.5] / (2 * far)
        assert chi_squared_p(counts, shares) > LOW


def test_jitter() -> None:
    whats = drawn("ColorJitter", brightness=0.4, contrast=(0.5, 2), hue=0.1)
    orders = sorted({what["order"] for what in whats})
    assert len(orders) == 24
    assert whole_numbers_p([orders.index(what["order"]) for what in whats], 24) > LOW
    ranges = {"brightness": (0.6, 1.4), "contrast": (0.5, 2), "hue": (-0.1, 0.1)}
    for name, ends in ranges.items():
        sample = np.array([what[name] for what in whats])
        assert kolmogorov_p(sample, uniform(*ends)) > LOW
    assert {what["saturation"] for what in whats} == {None}


def test_normals() -> None:
    sample = np.concatenate([normals(Draw(9, 0, d, 1), 5000) for d in range(8)])
    assert kolmogorov_p(sample, normal) > LOW
    assert kolmogorov_p(sample * 1.06, normal) < LOW
    assert kolmogorov_p(sample + 0.03, normal) < LOW


@pytest.mark.parametrize("alpha", [0.1, 0.4, 1.0, 1.5, 8.0])
def test_beta(alpha: float) -> None:
    sample = np.array([beta(Draw(9, 0, d, 1), alpha) for d in range(COUNT)])
    assert kolmogorov_p(sample, symmetric_beta(alpha)) > LOW
    assert kolmogorov_p(sample, symmetric_beta(alpha * 1.3)) < LOW


def test_beta_function() -> None:
    """Known cases: even at 1, the arcsine at 1/2, a polynomial at 2."""
    x = np.linspace(0.01, 0.99, 99)
    np.testing.assert_allclose(symmetric_beta(1)(x), x, atol=1e-6)
    arcsine = 2 / np.pi * np.arcsin(np.sqrt(x))
    np.testing.assert_allclose(symmetric_beta(0.5)(x), arcsine, atol=1e-6)
    np.testing.assert_allclose(symmetric_beta(2)(x), x * x * (3 - 2 * x), atol=1e-6)


def test_partners() -> None:
    """Any of the others, never itself."""
    places = [partner(Draw(2, 0, d, 0), 4, 9) for d in range(COUNT)]
    assert whole_numbers_p([(place - 5) % 9 for place in places], 8) > LOW
    assert partner(Draw(2, 0, 0, 0), 0, 1) == 0


def test_mixing_weights() -> None:
    """The label's weight is the share of the image that is the example's own."""
    weights = [mix_up(Draw(2, 0, d, 0), IMAGE)["weight"] for d in range(COUNT)]
    assert kolmogorov_p(np.array(weights), uniform(0, 1)) > LOW
    corners = []
    for d in range(COUNT):
        what = cut_mix(Draw(2, 0, d, 0), IMAGE)
        x1, y1, x2, y2 = what["box"]
        assert 0 <= x1 <= x2 <= 80
        assert 0 <= y1 <= y2 <= 60
        assert what["outside"] == 1 - (x2 - x1) * (y2 - y1) / (60 * 80)
        # From the left edge and from the right one alike.
        corners.append((x1, 80 - x2))
    left, right = np.mean(corners, axis=0)
    assert abs(left - right) < 3


def test_windows_and_gains() -> None:
    starts = [w["start"] for w in drawn("RandomWindow", (7, 40), length=21, axis=1)]
    assert whole_numbers_p(starts, 20) > LOW
    gains = [what["gain"] for what in drawn("RandomGain", min_db=-3, max_db=9)]
    assert kolmogorov_p(20 * np.log10(gains), uniform(-3, 9)) > LOW


def test_spec_masks() -> None:
    given = {"freq_mask_param": 8, "time_mask_param": 30, "num_time_masks": 2}
    whats = drawn("SpecMask", (20, 100), **given)
    bands = [what["frequencies"][0] for what in whats]
    assert whole_numbers_p([length for _, length in bands], 8) > LOW
    assert all(0 <= start <= 20 - length for start, length in bands)
    for mask in (0, 1):
        lengths = [what["times"][mask][1] for what in whats]
        assert whole_numbers_p(lengths, 30) > LOW
    assert any(what["times"][0] != what["times"][1] for what in whats)


def test_tokens() -> None:
    """Tokens are selected and replaced with these probabilities; special ones stay."""
    tokens = np.arange(100_000) % 50
    given = {"mask_token": 99, "vocab_size": 50, "p": 0.2, "special_tokens": (0, 7)}
    what = parameters("TokenMask", given, Draw(3, 0, 1, 0), tokens)
    selected, instead = what["selected"], what["instead"]
    assert not selected[np.isin(tokens, (0, 7))].any()
    count = selected.sum()
    assert chi_squared_p(np.array([count, 96_000 - count]), [0.2, 0.8]) > LOW
    became = instead[selected]
    masked, kept = (became == 99).sum(), (became == tokens[selected]).sum()
    # A random token is at times the one that it was.
    shares = [0.8, 0.1 + 0.1 / 50, 0.1 * 49 / 50]
    assert chi_squared_p(np.array([masked, kept, count - masked - kept]), shares) > LOW
    others = became[(became != 99) & (became != tokens[selected])]
    assert whole_numbers_p(others, 50) > LOW
