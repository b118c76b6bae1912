"""Check for a GPU: `python bench/gpu/has_gpu.py` exits with 3 if there is none.

With the standard library alone: it is asked before anything is installed.
"""

from __future__ import annotations

import ctypes
import sys

NO_GPU = 3  # exit code


def why_no_gpu() -> str | None:
    """Return the reason why nothing can run on a GPU here; None if it can."""
    try:
        calls = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"there is no GPU here ({error})"
    if code := calls.cuInit(0):
        return f"there is no GPU here (cuInit says {code})"
    count = ctypes.c_int()
    calls.cuDeviceGetCount(ctypes.byref(count))
    return None if count.value else "there is no GPU here (the driver sees none)"


if __name__ == "__main__":
    reason = why_no_gpu()
    if reason is not None:
        print(reason)
        sys.exit(NO_GPU)
