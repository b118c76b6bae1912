"""The public API is that of `public_api.txt`: nothing in it changes unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from public_api import api

pytestmark = pytest.mark.host


def test_names_signatures_and_first_lines_are_those_written_down():
    written = (Path(__file__).parents[1] / "public_api.txt").read_text()
    # After a change that is meant: python tests/public_api.py > tests/public_api.txt
    assert api().splitlines() == written.splitlines()
