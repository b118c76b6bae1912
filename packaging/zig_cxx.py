"""Run Zig's C++ compiler, and link shared libraries so that wheels compress well.

    python packaging/zig_cxx.py -target x86_64-linux-gnu.2.28 ...

Deflate finds only what was within the last 32 KiB. LLD can put functions that are alike
next to each other, and fold those that are equal: that makes echobuf's module a sixth
smaller in a wheel. Zig takes neither option, so that a library is linked twice: Zig
prints the call of LLD, and the second call adds the options.
"""

from __future__ import annotations

import shlex
import subprocess
import sys

# `safe`: not where a program may compare the addresses of the functions.
LINKED = ("--bp-compression-sort=both", "--icf=safe")


def linking_of(printed: str) -> list[str]:
    """Return the arguments of LLD that `zig c++ -v` printed.

    Raises:
        SystemExit: it printed none.
    """
    calls = [line for line in printed.splitlines() if line.startswith("ld.lld ")]
    if not calls:
        raise SystemExit(
            "`zig c++ -v` printed no call of ld.lld: install the version of Zig that "
            f"packaging/requirements.txt names. It printed:\n{printed}"
        )
    return shlex.split(calls[-1])[1:]


def main(arguments: list[str]) -> int:
    """Compile, or link, as `zig c++` does; return its exit status."""
    zig = [sys.executable, "-m", "ziglang"]
    if "-shared" not in arguments:
        return subprocess.run([*zig, "c++", *arguments], check=False).returncode
    linked = subprocess.run(
        [*zig, "c++", *arguments, "-v"],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
    )
    if linked.returncode != 0:
        sys.stderr.write(linked.stderr)
        return linked.returncode
    again = [*zig, "ld.lld", *linking_of(linked.stderr), *LINKED]
    return subprocess.run(again, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
