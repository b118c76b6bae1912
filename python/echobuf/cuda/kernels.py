"""The source of the kernels, as CuPy compiles it."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

NAMES = (
    "echobuf_draw",
    "echobuf_draw_planned",
    "echobuf_draw_partners",
    "echobuf_plan",
)
# No fused multiply-add: the host build, which has none, must agree bit for bit.
OPTIONS = ("-std=c++20", "--fmad=false")
_PACKAGE = Path(__file__).parent.parent
INCLUDE = _PACKAGE / "include"


def source() -> str:
    """All entry points, and what tells one version of the headers from another.

    CuPy's cache of compiled kernels looks at the source and at the options alone, not
    at the headers that the source includes.
    """
    entries = [path.read_text() for path in sorted((_PACKAGE / "kernels").glob("*.cu"))]
    return "\n".join([*entries, f"// headers: {digest()}\n"])


@functools.cache
def digest() -> str:
    """What tells one version of the headers from another."""
    found = hashlib.sha256()
    for header in sorted((INCLUDE / "echobuf").rglob("*.hpp")):
        found.update(header.read_bytes())
    return found.hexdigest()


def options() -> tuple[str, ...]:
    """What the compiler is told."""
    return (*OPTIONS, f"-I{INCLUDE}")
