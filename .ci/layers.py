"""Checks that includes of the C++ headers point down, from room to room.

`python .ci/layers.py [FOLDER]` names each include that points up or sideways, and each
circle of headers, and then exits with 1. A room is a folder of `cpp/include/echobuf/`;
of its headers outside all folders, those of GROUND lie beneath the rooms, and the
others, which only include, above.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# A header includes headers of its own room, and of those further down: of no other room
# in the same line.
LAYERS = (
    ("cuda", "shared"),
    ("buffer", "transform"),
    ("draw",),
    ("store",),
    ("schedule",),
    ("sync",),
    ("ground",),
)
GROUND = (
    "cpu",
    "leaf_options",
    "length_options",
    "options",
    "platform",
    "process",
    "ratio",
    "sizes",
    "status",
    "version",
)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
HEIGHTS = {
    room: height for height, rooms in enumerate(reversed(LAYERS)) for room in rooms
}


def room_of(header: str) -> str:
    """Return the room of a header, `front` for those that lie above all rooms."""
    folder, _, name = header.rpartition("/")
    if folder:
        return folder.split("/")[0]
    return "ground" if name.removesuffix(".hpp") in GROUND else "front"


def points_down(header: str, included: str) -> bool:
    """Return whether a header may include another one."""
    room, below = room_of(header), room_of(included)
    if below not in HEIGHTS:
        return False
    return room in (below, "front") or HEIGHTS[below] < HEIGHTS[room]


def includes_of(folder: Path) -> dict[str, list[str]]:
    """Return the headers that each header of a folder includes."""
    prefix = f"{folder.name}/"
    return {
        path.relative_to(folder).as_posix(): [
            name.removeprefix(prefix) for name in INCLUDE.findall(path.read_text())
        ]
        for path in sorted(folder.rglob("*.hpp"))
    }


def circle_in(includes: dict[str, list[str]]) -> list[str]:
    """Return the headers of a circle, each of which includes the next; else none."""
    done: set[str] = set()
    way: list[str] = []

    def walk(header: str) -> bool:
        if header in way:
            del way[: way.index(header)]
            return True
        if header in done:
            return False
        way.append(header)
        if any(walk(included) for included in includes.get(header, [])):
            return True
        done.add(way.pop())
        return False

    return way if any(walk(header) for header in includes) else []


def faults(folder: Path) -> list[str]:
    """Return a line for each fault of the headers of a folder."""
    includes = includes_of(folder)
    found = [
        f"{header}: `{room_of(header)}` is a room of no layer"
        for header in includes
        if room_of(header) not in {*HEIGHTS, "front"}
    ]
    if found:
        return found
    found = [
        f"{header} includes {included}: `{room_of(header)}` is not above "
        f"`{room_of(included)}`"
        for header, all_included in includes.items()
        for included in all_included
        if not points_down(header, included)
    ]
    circle = circle_in(includes)
    if circle:
        found.append(f"a circle: {' -> '.join([*circle, circle[0]])}")
    return found


if __name__ == "__main__":
    root = Path(__file__).parent.parent / "cpp/include/echobuf"
    lines = faults(Path(sys.argv[1]) if len(sys.argv) > 1 else root)
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(1 if lines else 0)
