"""Install the wheel as a user, in the root of `.ci/wheel`, and use it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

TOOLS = [
    "cc",
    "c++",
    "gcc",
    "g++",
    "clang",
    "clang++",
    "cpp",
    "ld",
    "as",
    "make",
    "cmake",
    "ninja",
    "zig",
    "sh",
    "bash",
]
MOST_S = 10.0  # for an installation
WHEELS = Path("/wheels")

SCRIPT = Path("/try_wheel.py").read_text()


def run(*command: object, **options: object) -> str:
    """Run a command; return its output."""
    done = subprocess.run(
        [str(part) for part in command],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    if done.returncode != 0:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def show_bareness() -> None:
    """Print that there is no compiler, no CMake, and no header."""
    found = [tool for tool in TOOLS if shutil.which(tool)]
    headers = [
        *Path("/usr").glob("include/*"),
        *Path(sys.base_prefix).glob("include/*"),
    ]
    print(f"PATH={os.environ['PATH']}; in /: {sorted(os.listdir('/'))}")
    print(f"of {', '.join(TOOLS)}: {found or 'none'}; headers: {headers or 'none'}")
    if found or headers:
        raise SystemExit("this root is not bare")


def used_s() -> float:
    """Return the processor's seconds that ended children have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def install(venv: Path) -> Path:
    """Make an environment and install the wheel there; return its Python."""
    python = venv / "bin/python"
    run(sys.executable, "-m", "venv", venv)
    begin, used = time.monotonic(), used_s()
    options = ["--no-index", "--find-links", WHEELS, "--only-binary", ":all:"]
    run(python, "-m", "pip", "install", "-q", *options, "data-echoing")
    seconds = time.monotonic() - begin
    used = used_s() - used  # of the processor, whatever else runs on the machine
    print(
        "pip install data-echoing, with NumPy and optree: "
        f"{seconds:.1f} s, {used:.1f} s of a processor"
    )
    if used > MOST_S:
        raise SystemExit(f"that is more than {MOST_S:.0f} s")
    return python


def main() -> None:
    """Do all of it."""
    show_bareness()
    python = install(Path("/home/venv"))
    print(run("/home/venv/bin/echobuf", "doctor"), end="")
    print(run(python, "-c", SCRIPT, cwd="/tmp"), end="")
    # Elsewhere: a path with spaces, which nothing may be written to any more (root may
    # write into folders that are read-only: another user runs it).
    spaces = Path("/home/with spaces")
    shutil.copytree("/home/venv", spaces, symlinks=True)
    moved = spaces / "bin/python"
    for folder, _, _ in os.walk(spaces):
        os.chmod(folder, 0o555)
    for folder in ("/", "/home", *map(str, Path(sys.base_prefix).parents)):
        if os.stat(folder).st_uid == os.getuid():
            os.chmod(folder, os.stat(folder).st_mode | 0o555)
    other = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
    for options in ([], ["-B"], ["-I"]):
        print(run(moved, *options, "-c", SCRIPT, cwd="/", **other), end="")
    packages = next((spaces / "lib").glob("python3*/site-packages"))
    without_site = f"import sys; sys.path.insert(0, {str(packages)!r})\n{SCRIPT}"
    print(run(moved, "-S", "-c", without_site, cwd="/", **other), end="")


if __name__ == "__main__":
    main()
