"""Where the C++ headers are."""

from __future__ import annotations

import os


def get_include() -> str:
    """The folder of the C++ headers, for `#include <echobuf/buffer.hpp>`."""
    return os.path.join(os.path.dirname(__file__), "include")
