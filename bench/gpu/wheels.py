"""The wheels of wheels/ to install: `python bench/gpu/wheels.py others|own`.

`others` prints those whose package this Python lacks, `own` those that were built of
this checkout. It needs the standard library alone, since nothing is installed yet.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import zipfile
from pathlib import Path

OWN = "data-echoing"
ROOT = Path(__file__).resolve().parents[2]
# Source folders of the checkout, by their place in a wheel; it lacks compiled ones.
SOURCES = {
    "echobuf/include/echobuf/": ROOT / "cpp" / "include" / "echobuf",
    "echobuf/kernels/": ROOT / "cpp" / "kernels",
    "echobuf/": ROOT / "python" / "echobuf",
}
_SUFFIXES = {".py", ".hpp", ".cu"}


def package_of(wheel: Path) -> str:
    """Return the normalised name of a wheel's package."""
    return normal(wheel.name.split("-")[0])


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def others(wheels: list[Path]) -> list[Path]:
    """Return the wheels of packages that this Python lacks, without echobuf's."""
    installed = {normal(d.name) for d in importlib.metadata.distributions()}
    return [w for w in wheels if package_of(w) not in {OWN, *installed}]


def own(wheels: list[Path]) -> list[Path]:
    """Return echobuf's wheels of this checkout; print a reason for each other one."""
    found = []
    for wheel in wheels:
        if package_of(wheel) == OWN:
            other = differing(wheel)
            if other is None:
                found.append(wheel)
            else:
                print(
                    f"{wheel}: left aside, not of this checkout: {other}",
                    file=sys.stderr,
                )
    return found


def differing(wheel: Path) -> str | None:
    """Return the version, or first source file, in which they differ, or None.

    A wheel also has the files that the build generates, and a checkout lacks them: they
    follow from the version.
    """
    made = generated()
    with zipfile.ZipFile(wheel) as archive:
        packed = {
            n: archive.read(n)
            for n in archive.namelist()
            if _is_source(n) and n not in made
        }
    if wheel.name.split("-")[1] != version():
        return f"version {wheel.name.split('-')[1]}, not {version()}"
    here = {
        place + file.relative_to(folder).as_posix(): file.read_bytes()
        for place, folder in SOURCES.items()
        for file in folder.rglob("*")
        if file.suffix in _SUFFIXES
        and place + file.relative_to(folder).as_posix() not in made
    }
    names = sorted(packed.keys() | here.keys())
    return next((n for n in names if packed.get(n) != here.get(n)), None)


def generated() -> set[str]:
    """Return the files that pyproject.toml lets the build write into the package."""
    # Python 3.10 has no tomllib.
    text = (ROOT / "pyproject.toml").read_text()
    entries = text.split("[[tool.scikit-build.generate]]")[1:]
    return set(re.findall(r'(?m)^path = "(.+)"$', "".join(entries)))


def version() -> str:
    """Return the version of the checkout, as pyproject.toml finds it."""
    text = (ROOT / "cpp" / "include" / "echobuf" / "version.hpp").read_text()
    parts = re.findall(
        r"(?m)^#define ECHOBUF_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text
    )
    return ".".join(parts)


def _is_source(name: str) -> bool:
    return name.startswith("echobuf/") and Path(name).suffix in _SUFFIXES


if __name__ == "__main__":
    choose = {"others": others, "own": own}[sys.argv[1]]
    for wheel in choose(sorted((ROOT / "wheels").glob("*.whl"))):
        print(wheel)
