"""The folder of the C++ headers."""

from __future__ import annotations

import os


def get_include() -> str:
    """Return the folder of the C++ headers, for `#include <echobuf/buffer.hpp>`."""
    return os.path.join(os.path.dirname(__file__), "include")
