"""Importing the scripts in bench/ and experiments/, which are no packages."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[1] / "bench"
EXPERIMENTS = Path(__file__).parents[1] / "experiments"


@contextmanager
def importable(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> Iterator[Callable[[str], ModuleType]]:
    """Return an importer of the folder's scripts, which it forgets afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        file = Path(getattr(sys.modules[name], "__file__", None) or "")
        if BENCH in file.parents or EXPERIMENTS in file.parents:
            del sys.modules[name]
