"""Which tests concern which modules of the package."""

from __future__ import annotations

import glob
from pathlib import Path

CONCERNS: dict[str, list[str]] = {
    "": ["tests/buffer", "tests/structure", "tests/schedule", "tests/loader"],
    "analysis/": ["tests/analysis"],
    "cache/": ["tests/cache"],
    "cli/": ["tests/cli", "tests/bench"],
    "cli/demo/": ["tests/demo"],
    "cuda/": ["tests/on_cuda/test_cuda_*.py", "tests/on_cuda/test_simulated_cuda.py"],
    "jax/": ["tests/on_jax"],
    "loader/": [
        "tests/loader",
        "tests/buffer/test_life*.py",
        "tests/buffer/test_errors.py",
        "tests/buffer/test_process.py",
        "tests/faults/test_fault_upstream.py",
    ],
    "loader/pool_reader.py": ["tests/workers"],
    "metrics/": ["tests/metrics"],
    "plain.py": ["tests/buffer/test_plain.py", "tests/cache/test_cache_items.py"],
    "serve/": ["tests/serve"],
    "torch/": ["tests/on_torch"],
    "ranks/": ["tests/ranks"],
    "transforms/": ["tests/transforms", "tests/buffer/test_sequences_*.py"],
    "workers/": ["tests/workers"],
}
"""By how the path of a module begins; the longest that fits counts."""


def tests_of(module: str, root: Path) -> list[str]:
    """Return the test files and folders that concern a module.

    Args:
        module: its path in the package.
        root: of the project, from which the tests are named.
    """
    begin = max((key for key in CONCERNS if module.startswith(key)), key=len)
    found = []
    for pattern in CONCERNS[begin]:
        found += sorted(glob.glob(pattern, root_dir=root))
    return found
