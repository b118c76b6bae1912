"""Where caches are: in memory, and in a directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Path | None]:
    """Gives the directory for another cache; None in memory."""
    made: list[Path] = []

    def another() -> Path | None:
        if request.param == "memory":
            return None
        pytest.importorskip("lmdb")
        made.append(tmp_path / f"cache {len(made)}")
        return made[-1]

    return another
