"""Spectrograms [frequency, time], and [channel, frequency, time] as torchaudio's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import EchoBuffer, Field, SpecError
from echobuf import transforms as T
from echobuf._engine.output import make_output_spec
from echobuf.spec import make_spec
from transform_engine import Step, expected, one, rows

SEEDS = st.integers(0, 2**64 - 1)
MASK: dict[str, Any] = {"freq_mask_param": 3, "time_mask_param": 4, "value": 0.5}


def channels_apart(
    leaf: np.ndarray, steps: list[Step], draw: int, seed: int
) -> np.ndarray:
    """Return the reference's result of each channel, with the same words."""
    return np.stack([expected(part, steps, draw, seed=seed) for part in leaf])


@settings(max_examples=80)
@given(
    st.data(),
    st.sampled_from([1, 2, 3, 5, 16]),
    st.integers(4, 9),
    st.integers(4, 12),
    st.sampled_from(["float32", "float16"]),
    SEEDS,
)
def test_all_channels_get_the_same_masks_and_windows(
    data: st.DataObject, channels: int, bins: int, time: int, dtype: str, seed: int
) -> None:
    random = np.random.default_rng(seed % 1000)
    leaves = list(random.random((3, channels, bins, time), np.float32))
    bands = {**MASK, "num_freq_masks": data.draw(st.integers(0, 2))}
    window = {"length": data.draw(st.integers(4, time)), "axis": -1}
    steps: list[Step] = [("RandomWindow", window), ("SpecMask", bands)]
    if data.draw(st.booleans()):
        steps.reverse()
    steps += [("ToDtype", {"dtype": dtype})]
    made = rows(leaves, steps, factor=2, seed=seed)
    assert len(made) == 6
    for draw, (number, got) in enumerate(made):
        want = channels_apart(leaves[number], steps, draw, seed)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_one_channel_is_as_none() -> None:
    leaf = np.random.default_rng(1).random((9, 20), np.float32)
    steps: list[Step] = [
        ("RandomWindow", {"length": 12, "axis": -1}),
        ("SpecMask", {**MASK, "num_time_masks": 3}),
        ("RandomGain", {}),
    ]
    for seed in range(5):
        flat = one(leaf, steps, seed=seed)
        np.testing.assert_array_equal(one(leaf[None], steps, seed=seed)[0], flat)


def test_time_may_come_first() -> None:
    """[time, frequency] gets the bands of [frequency, time], named the other way."""
    leaf = np.random.default_rng(1).random((20, 9), np.float32)
    mask = {"freq_mask_param": 6, "time_mask_param": 3, "num_freq_masks": 2}
    other = {"time_mask_param": 6, "freq_mask_param": 3, "num_time_masks": 2}
    for seed in range(5):
        made = one(leaf, [T.SpecMask(**other, time_axis=0)], seed=seed)
        want = expected(leaf, [("SpecMask", mask)], 0, seed=seed)
        np.testing.assert_array_equal(made, want)
        assert (made == 0).any()


def test_each_channel_is_normalized_by_its_own() -> None:
    leaf = np.ones((3, 5, 8), np.float32)
    mean = [1.0, 2.0, 3.0]
    steps = [T.SpecMask(2, 2, value=7.0), T.Normalize(mean, 1.0)]
    made = one(leaf, steps)
    for channel, values in enumerate(made):
        assert set(np.unique(values)) <= {0.0 - channel, 6.0 - channel}


REFUSED = [
    ((17, 5, 6), np.float32, [T.SpecMask(1, 1)], "16 channels at most"),
    ((5,), np.float32, [T.SpecMask(1, 1)], r"spectrograms, of shape.*\[channel"),
    ((2, 1, 5, 6), np.float32, [T.SpecMask(1, 1)], "spectrograms, of shape"),
    ((1, 5, 6), np.int16, [T.SpecMask(1, 1)], "spectrograms of floats.*ToDtype"),
    ((5, 6, 3), np.float32, [T.CenterCrop(4), T.SpecMask(1, 1)], "Layout.*CHW"),
    ((3, 5, 6), np.float32, [T.SpecMask(1, 1), T.RandomWindow(2)], "not for images"),
    (
        (1, 5, 6),
        np.float32,
        [T.SpecMask(1, 1, time_axis=0)],
        r"time_axis=0, which is for spectrograms of shape \[time, frequency\]",
    ),
    (
        (None, 5),
        np.float32,
        [T.SpecMask(1, 1)],
        r"say time_axis=0, which is for \[time, frequency\], or put RandomWindow",
    ),
    (
        (None, 5, 2),
        np.float32,
        [T.SpecMask(1, 1, time_axis=0)],
        r"of shape \[time, frequency\]",
    ),
    (
        (3, 5, 6),
        np.float32,
        [T.SpecMask(1, 1), T.RandomWindow(7, axis=-1)],
        "longer than axis -1",
    ),
]


@pytest.mark.parametrize(("shape", "dtype", "steps", "message"), REFUSED)
def test_a_chain_that_does_not_fit(
    shape: Any, dtype: Any, steps: Any, message: str
) -> None:
    longest = 9 if shape[0] is None else None
    with pytest.raises(SpecError, match=f"(?s){message}"):
        EchoBuffer(
            {"x": Field(shape, dtype, max_length=longest)},
            batch_size=2,
            window=4,
            transform={"x": steps},
        )


def test_a_chain_of_one_channel_is_one_stage() -> None:
    """A window and masks of [1, F, T] need no memory between them, as of [F, T]."""
    steps = [T.RandomWindow(8, axis=-1), T.SpecMask(2, 2), T.Normalize(0.0, 2.0)]
    stages = []
    for shape in ((6, 50), (1, 6, 50)):
        spec = make_spec({"x": Field(shape, np.float32)})
        [(_, plan)] = make_output_spec(spec, {"x": steps}).plans
        assert plan is not None
        stages.append(len(plan.stages))
    assert stages == [1, 1]
