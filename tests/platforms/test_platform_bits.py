"""Draws, copies and transforms have the recorded bits, with any vector instructions."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
RECORDED: dict[str, str] = json.loads((HERE / "bits.json").read_text())
LEVELS = ("portable", "avx2", "avx512") if platform.machine() == "x86_64" else (None,)
PROGRAM = """
import json
from echobuf import _core
from platform_bits import digests
print(json.dumps({"instructions": _core.cpu_features(), "digests": digests()}))
"""


def computed(level: str | None) -> dict[str, Any]:
    """Return what a process computes whose instructions are at most of a level."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    if level is not None:
        environment["ECHOBUF_INSTRUCTIONS"] = level
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("level", LEVELS)
def test_bits_are_the_recorded_ones(level: str | None) -> None:
    found = computed(level)
    if level is not None:
        above = LEVELS[LEVELS.index(level) + 1 :]
        assert not set(above) & set(found["instructions"])
    different = [
        name
        for name in RECORDED.keys() | found["digests"].keys()
        if RECORDED.get(name) != found["digests"].get(name)
    ]
    assert sorted(different) == []


def test_cases_are_many_and_differ() -> None:
    """A digest of nothing, or of bytes that an operation left alone, would repeat."""
    assert len(RECORDED) > 200
    repeated = len(RECORDED) - len(set(RECORDED.values()))
    assert repeated == 0, sorted(RECORDED.items(), key=lambda item: item[1])
