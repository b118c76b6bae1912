"""Fixtures: caches in memory and in a directory; ranks that are threads."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leaked_threads import no_feeder


@pytest.fixture(params=["memory", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Path | None]:
    """Return a function that gives the directory of another cache; None in memory."""
    made: list[Path] = []

    def another() -> Path | None:
        if request.param == "memory":
            return None
        made.append(tmp_path / f"cache {len(made)}")
        return made[-1]

    return another


@pytest.fixture
def ranks_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let ranks be threads of this process; check that no thread of theirs is left."""
    import sharing_ranks

    sharing_ranks.patch(monkeypatch)
    yield
    no_feeder()


@pytest.fixture(name="open_path")
def _open_path():
    """Return a directory that every user can open."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)
