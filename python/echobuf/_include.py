"""Where the C++ headers are."""

from __future__ import annotations

from pathlib import Path


def get_include() -> str:
    """The folder of the C++ headers, for `#include <echobuf/buffer.hpp>`."""
    return str(Path(__file__).parent / "include")
