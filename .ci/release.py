"""Check that a tag, the version and the changelog agree before a release.

`python .ci/release.py v1.2.3`: exits with 1, and one line a fault, if they do not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def version(root: Path) -> str:
    """Return the version that the C++ headers, pip and CMake have."""
    text = (root / "cpp/include/echobuf/version.hpp").read_text()
    parts = [
        re.findall(rf"^#define ECHOBUF_VERSION_{part} (\d+)$", text, re.MULTILINE)
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    return ".".join(number for (number,) in parts)


def faults(root: Path, tag: str) -> Iterator[str]:
    """Yield what keeps a tag from being released."""
    found = version(root)
    if tag != f"v{found}":
        yield f"the tag is {tag!r}, but version.hpp has {found}: it must be 'v{found}'"
    heading = re.compile(rf"^## \[{re.escape(found)}\] - (\S+)$", re.MULTILINE)
    dates = heading.findall((root / "CHANGELOG.md").read_text())
    if len(dates) != 1 or not re.fullmatch(r"\d{4}-\d\d-\d\d", dates[0]):
        yield f"CHANGELOG.md must have one line '## [{found}] - YYYY-MM-DD'"
    if f"\nversion: {found}\n" not in (root / "CITATION.cff").read_text():
        yield f"CITATION.cff must have the line 'version: {found}'"


if __name__ == "__main__":
    found = list(faults(ROOT, sys.argv[1]))
    print(*found, sep="\n", file=sys.stderr)
    sys.exit(bool(found))
