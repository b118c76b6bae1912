"""Recorded results of torchvision, which is too large to install for every test.

`cases()` are calls of torchvision's v2 functions and classes with fixed parameters, and
their results. `record.py` made the file; how stands there.
"""

from torchvision_recorded.recorded import (
    Case,
    as_operation,
    cases,
    clip_cases,
    versions,
)

__all__ = ["Case", "as_operation", "cases", "clip_cases", "versions"]
