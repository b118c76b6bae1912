"""Two builds side by side: here this one, and itself again."""

import json
import sys

import pytest

from scripts import BENCH, importable


@pytest.mark.host
def test_a_row_has_the_speeds_of_both_builds(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    words = ["--ask", "puts", "--rounds", "1", "--before", sys.executable]
    monkeypatch.setattr(sys, "argv", ["speed_rows", *words, "--out", str(tmp_path)])
    with importable(monkeypatch, BENCH) as load:
        speed_rows = load("speed_rows")
        speed_rows.main()
        rows = {row.question for row in speed_rows.ROWS}
        assert rows == {question.name for question in speed_rows.questions()}
    written = json.loads((tmp_path / "speed_rows.json").read_text())
    (row,) = written["rows"]
    assert row["name"] == "array and np.int64"
    assert 0.2 < row["now"] / row["before"] < 5  # the same build
    results = written["questions"]["puts"]["results"]
    assert len(results) == 4
