"""A comparison of arrays that is quick where they are equal."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_equal(got: Any, want: Any, says: str = "") -> None:
    """Compare two arrays as `numpy.testing.assert_array_equal` does.

    That takes fifty microseconds however small the arrays are, and tests compare each
    record of thousands; here it is called only for arrays that are not equal.
    """
    if (
        isinstance(got, np.ndarray)
        and isinstance(want, np.ndarray)
        and got.shape == want.shape
        and bool((got == want).all())
    ):
        return
    np.testing.assert_array_equal(got, want, says)
