"""A plugin for pytest: which test runs which lines, and those of a line come first.

Asked by the environment: `MUTATION_FILES` names the files whose lines are noted, in the
file that `MUTATION_NOTES` names; `MUTATION_ORDER` is a file with the names of tests, of
which `first` come first and `out` are left out.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

_FILES = {
    os.path.realpath(path): path
    for path in os.environ.get("MUTATION_FILES", "").split(os.pathsep)
    if path
}
_lines: set[tuple[str, int]] = set()
_notes: dict[str, Any] = {}


def _trace(frame: FrameType, event: str, argument: Any) -> Any:
    path = frame.f_code.co_filename
    if path not in _FILES:
        return None
    _lines.add((path, frame.f_lineno))
    return _trace


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    if not _FILES:
        return (yield)
    _lines.clear()
    begin = time.perf_counter()
    threading.settrace(_trace)
    sys.settrace(_trace)
    try:
        result = yield
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    _notes[item.nodeid] = {
        "seconds": time.perf_counter() - begin,
        "lines": sorted(_lines.copy()),
    }
    return result


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    path = os.environ.get("MUTATION_ORDER")
    if not path:
        return
    order = json.loads(Path(path).read_text())
    rank = {name: at for at, name in enumerate(order["first"])}
    out = [item for item in items if item.nodeid in order["out"]]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item.nodeid not in order["out"]]
    items.sort(key=lambda item: rank.get(item.nodeid, len(rank)))


def pytest_sessionfinish() -> None:
    notes = os.environ.get("MUTATION_NOTES")
    if notes and _FILES:
        Path(notes).write_text(json.dumps(_notes))
