"""Examples in the docstrings of what needs transformers or Keras."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

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
    ran = subprocess.run(
        [sys.executable, ROOT / "tests" / "api_examples.py", *MODULES],
        env={**os.environ, **BACKEND},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,  # what it printed is shown
        timeout=240,
    )
    assert ran.returncode == 0, ran.stdout[-6000:]
    page = PAGE.read_text()
    names = re.findall(r"^::: (echobuf\.(?:keras|transformers)\.\w+)$", page, re.M)
    assert f"{len(names)} names have examples that run" in ran.stdout
