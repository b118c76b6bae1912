"""Measurements that hypothesis makes: anything that the types allow."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from echobuf.analysis.measurements import Estimate, LoaderParts, Measurements
from measured import measurements

ABSURD = st.one_of(
    st.floats(0, 1e-3), st.floats(0, 1e300), st.sampled_from([0.0, 1e-308, math.inf])
)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, mean, high = sorted(draw(st.lists(ABSURD, min_size=3, max_size=3)))
    return Estimate(mean, low, high, draw(st.integers(0, 10**15)))


@st.composite
def absurd_measurements(draw: st.DrawFn) -> Measurements:
    """Anything that the types allow, and a buffer takes."""
    window = draw(st.sampled_from([1, 3, 64, 200]))
    parts = st.builds(LoaderParts, st.integers(0, 10**6), ABSURD, ABSURD, ABSURD)
    names = ("step_s", "upstream_first_s", "together_s", "wait_s")
    return measurements(
        **{name: draw(estimates()) for name in names},
        upstream_second_s=draw(st.none() | estimates()),
        batch_size=draw(st.integers(1, window)),
        window=window,
        length=draw(st.none() | st.integers(0, 10**15)),
        max_factor=draw(st.sampled_from([1, 2, 8, 100, 2**31 - 1])),
        item=draw(st.sampled_from([0, 1, 7, 10**6])),
        startup_s=draw(ABSURD),
        loader=draw(st.none() | parts),
        notes=("a note [in brackets] " + "that is long " * 9, "w" * 200),
    )
