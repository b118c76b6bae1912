"""Cost of `import echobuf` over `import numpy`, and the modules it imports.

A fresh interpreter imports NumPy and then echobuf, and tells how much processor time
each took; its own start is not in it. Byte code is written before, as an installation
does.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from importlib.metadata import version

from echobuf.cli.bench.report import write_figures
from running import make_parser
from sampling import RESULTS

FRAMEWORKS = ("torch", "jax", "cupy", "tensorflow")
TIMED = """
import time
start = time.process_time()
import numpy
between = time.process_time()
import echobuf
print(between - start, time.process_time() - between)
"""


def fresh_imports() -> list[float]:
    """Return the processor seconds of importing NumPy, and then echobuf."""
    unset = "PYTHONDONTWRITEBYTECODE"
    done = subprocess.run(
        [sys.executable, "-c", TIMED],
        check=True,
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != unset},
    )
    return [float(seconds) for seconds in done.stdout.split()]


def frameworks_imported() -> list[str]:
    code = (
        f"import sys, echobuf; print(*(m for m in {FRAMEWORKS!r} if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    return done.stdout.split()


def main() -> None:
    options = make_parser(__doc__, RESULTS).parse_args()
    fresh_imports()  # into the page cache, and byte code written
    rounds = [fresh_imports() for _ in range(options.rounds)]
    numpy, over = (statistics.median(row) for row in zip(*rounds, strict=True))
    print(f"numpy: {numpy * 1e3:.1f} ms; echobuf over it: {over * 1e3:.1f} ms")
    imported = frameworks_imported()
    print(f"frameworks imported: {', '.join(imported) or 'none'}")
    write_figures(
        "import_time",
        options.out,
        {
            "unit": "seconds of the processor",
            "versions": {name: version(name) for name in ("numpy", "optree")},
            "numpy_s": numpy,
            "over_numpy_s": over,
            "rounds_s": rounds,
            "frameworks_imported": imported,
        },
    )


if __name__ == "__main__":
    main()
