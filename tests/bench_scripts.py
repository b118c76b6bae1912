"""Importing the scripts in bench/, which are no package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@contextmanager
def importable(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> Iterator[Callable[[str], ModuleType]]:
    """What imports a script of the folder by its name; forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(BENCH) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
