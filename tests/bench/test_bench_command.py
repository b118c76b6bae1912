"""`echobuf bench`: tables, result files and the chart."""

import json
from dataclasses import replace

import pytest

from echobuf.cli.bench import command, questions
from echobuf.cli.bench.report import print_table
from echobuf.cli.bench.rounds import Outcome, Ratio
from echobuf.cli.main import main


@pytest.fixture
def tiny(monkeypatch):
    small = questions.SMALL
    kept = tuple(c for c in small.candidates if c.name in ("plain copy", "echobuf"))
    settings = {**small.settings, "records": 1000, "batch": 10, "batches": 50}
    question = replace(small, candidates=kept, settings=settings, settle_s=0)
    monkeypatch.setitem(questions.QUESTIONS, "small", question)
    assert command.QUESTIONS is questions.QUESTIONS


def test_a_run_measures_and_draws_the_chart(tiny, tmp_path, capsys):
    assert main(["bench", "small", "--rounds", "2", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "echobuf" in out
    assert max(map(len, out.splitlines())) <= 100 + len(str(tmp_path))
    figures = json.loads((tmp_path / "small_batches.json").read_text())
    assert len(figures["results"]["echobuf"]["rounds_s"]) == 2
    assert figures["environment"]["command"]
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_a_candidate_that_fails_is_named_and_counts(monkeypatch, tmp_path, capsys):
    small = questions.SMALL
    broken = replace(small, settings={**small.settings, "records": 10})
    monkeypatch.setitem(questions.QUESTIONS, "small", broken)
    assert main(["bench", "small", "--rounds", "1", "--out", str(tmp_path)]) == 1
    assert "echobuf: no figure" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_bad_usage(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["bench", "small", "--out", str(tmp_path / "file")]) == 2
    assert "--out" in capsys.readouterr().err


@pytest.fixture(scope="module")
def measured():
    """Outcomes with the longest names and figures that there are."""
    question = questions.ECHOING
    row = {"seconds": 2.5, "units": 123_456, "cpu_s": 5.0, "peak_bytes": 10**11}
    row |= {"minor_faults": 1_234_567, "major_faults": 0}
    outcomes = {
        c.name: Outcome(c, {}, [row] * 3, Ratio(0.5, 0.4, 0.6))
        for c in question.candidates
    }
    last = question.candidates[-1]
    outcomes[last.name] = Outcome(last, failed_at="round", reason="it broke " * 30)
    return question, outcomes


@pytest.mark.parametrize("columns", [60, 80, 120, None])
def test_the_table_fits_the_terminal(measured, monkeypatch, capsys, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", str(columns))
    question, outcomes = measured
    print_table(question, outcomes)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= min(100, columns or 100)
    assert out.count("broke") == 30
    for name in outcomes:
        assert name in out
    assert ("peak MB" in out) == (columns in (120, None))
    assert ("more columns in a wider" in out) == (columns in (60, 80))


def test_as_json_it_prints_figures_alone(tiny, tmp_path, capsys):
    arguments = ["small", "--rounds", "1", "--out", str(tmp_path), "--json"]
    assert main(["bench", *arguments]) == 0
    captured = capsys.readouterr()
    content = json.loads(captured.out)
    written = json.loads((tmp_path / "small_batches.json").read_text())
    assert content["questions"]["small"]["results"] == written["results"]
    assert content["environment"]["command"]
    assert content["format"] == 1
    assert "written: " in captured.err
