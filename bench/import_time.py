"""What `import echobuf` costs over `import numpy`, and what it imports.

Each import runs in a fresh interpreter, which tells how long it took: the interpreter's
own start is not in it.
"""

from __future__ import annotations

import subprocess
import sys

from harness import interleave, parser, summarise, write

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
    options = parser(__doc__).parse_args()
    candidates = {
        "numpy": lambda: fresh_import("numpy"),
        "echobuf": lambda: fresh_import("echobuf"),
    }
    summary = summarise(interleave(candidates, options.rounds))
    over = summary["echobuf"]["median_s"] - summary["numpy"]["median_s"]
    for name, row in summary.items():
        print(f"{name:>8}: {row['median_s'] * 1e3:6.1f} ms")
    print(f"echobuf over numpy: {over * 1e3:.1f} ms")
    imported = frameworks_imported()
    print(f"frameworks imported: {', '.join(imported) or 'none'}")
    write(
        "import_time",
        options.out,
        {"results": summary, "over_numpy_s": over, "frameworks_imported": imported},
    )


if __name__ == "__main__":
    main()
