"""Versions of examples, as `put` and `put_batch` take them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from echobuf.errors import OptionError, show

Versions = int | npt.NDArray[np.int64]
"""A version of all examples that are put, or of each."""

_MOST = 2**63 - 1


def check_versions(version: Any, *, stacked: bool) -> Versions:
    """Return `version` as the core takes it.

    Args:
        version: the caller's.
        stacked: several examples are put: they may have an array of them.

    Raises:
        OptionError: it is no integer >= 0, nor an array of such.
    """
    if not isinstance(version, bool | np.bool_):
        try:
            one = operator.index(version)
        except TypeError:
            pass
        else:
            if not 0 <= one <= _MOST:
                raise _refusal(version, stacked)
            return one
    try:
        array = np.asarray(version)
    except (TypeError, ValueError, RuntimeError):
        raise _refusal(version, stacked) from None
    if not stacked or array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise _refusal(version, stacked)
    if len(array) and not (array.min() >= 0 and array.max() <= _MOST):
        raise OptionError(
            f"`version` has {array.min()} to {array.max()}; versions must be from 0 to "
            "2**63 - 1."
        )
    return np.ascontiguousarray(array, np.int64)


def other_count(versions: Versions | None, examples: int) -> OptionError:
    """Return the error for an array of versions that is not one for each example."""
    assert isinstance(versions, np.ndarray)
    return OptionError(
        f"`version` has {len(versions)} entries, and {examples} examples are put; give "
        "one for each, or one int for all."
    )


def _refusal(version: Any, stacked: bool) -> OptionError:
    or_array = ", or an array of one for each example" if stacked else ""
    return OptionError(
        f"`version` is {show(version)}; it must be an int from 0 to 2**63 - 1"
        f"{or_array}."
    )
