"""Lists of headers, each a line, that one compiler run can check as if each were alone.

`python .ci/headers.py FOLDER`: each header of a line includes the one before it, so
that what has been read before it is no more than what it includes by itself.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^#include "(echobuf/[^"]+)"', re.MULTILINE)


def closures(folder: Path) -> dict[str, set[str]]:
    """Return the headers that each header includes, directly or not."""
    paths = sorted(folder.rglob("*.hpp"))
    direct = {
        path.relative_to(folder).as_posix(): INCLUDE.findall(path.read_text())
        for path in paths
    }
    found: dict[str, set[str]] = {}

    def close(name: str) -> set[str]:
        if name not in found:
            found[name] = set(direct[name]).union(*map(close, direct[name]))
        return found[name]

    for name in direct:
        close(name)
    return found


def chains(included: dict[str, set[str]]) -> list[list[str]]:
    """Return lists in which each header includes the one before it."""
    made: list[list[str]] = []
    for name in sorted(included, key=lambda name: (len(included[name]), name)):
        fitting = [chain for chain in made if chain[-1] in included[name]]
        if fitting:
            max(fitting, key=lambda chain: len(included[chain[-1]])).append(name)
        else:
            made.append([name])
    return made


if __name__ == "__main__":
    for chain in chains(closures(Path(sys.argv[1]))):
        print(*chain)
