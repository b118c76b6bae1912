"""What `import echobuf` costs over `import numpy`, and what it imports.

Each import runs in a fresh interpreter, which tells how long it took: the interpreter's
own start is not in it.
"""

from __future__ import annotations

import operator
import statistics
import subprocess
import sys

from echobuf.cli.bench.options import make_parser
from echobuf.cli.bench.report import write_figures
from sampling import RESULTS

FRAMEWORKS = ("torch", "jax", "cupy", "tensorflow")
TIMED = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def fresh_import(module: str) -> float:
    """Seconds that importing it takes in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", TIMED.format(module=module)],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


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
    times: dict[str, list[float]] = {"numpy": [], "echobuf": []}
    for module in times:
        fresh_import(module)  # into the page cache
    for _ in range(options.rounds):
        for module, seconds in times.items():
            seconds.append(fresh_import(module))
    medians = {module: statistics.median(row) for module, row in times.items()}
    for module, median in medians.items():
        print(f"{module:>8}: {median * 1e3:6.1f} ms")
    over = statistics.median(map(operator.sub, times["echobuf"], times["numpy"]))
    print(f"echobuf over numpy: {over * 1e3:.1f} ms")
    imported = frameworks_imported()
    print(f"frameworks imported: {', '.join(imported) or 'none'}")
    write_figures(
        "import_time",
        options.out,
        {
            "median_s": medians,
            "rounds_s": times,
            "over_numpy_s": over,
            "frameworks_imported": imported,
        },
    )


if __name__ == "__main__":
    main()
