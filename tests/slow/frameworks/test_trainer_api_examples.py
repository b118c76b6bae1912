"""Examples in the docstrings of what needs transformers or Keras."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from run_program import run_program

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "api" / "trainers.md"
MODULES = ("echobuf.keras", "echobuf.transformers")
BACKEND = {"KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"}


@pytest.mark.skipif(
    not (find_spec("keras") and find_spec("transformers")),
    reason="no keras, or no transformers",
)
def test_examples_run_and_names_are_on_the_page():
    # A process that chooses Keras' backend, and imports torch once for both.
    program = ROOT / "tests" / "api_examples.py"
    shown = run_program([sys.executable, program, *MODULES], BACKEND)
    page = PAGE.read_text()
    names = re.findall(r"^::: (echobuf\.(?:keras|transformers)\.\w+)$", page, re.M)
    assert f"{len(names)} names have examples that run" in shown
