"""`echobuf bench`: tables, result files and the chart."""

import json
from dataclasses import replace

import pytest

from echobuf.cli.bench import command, questions
from echobuf.cli.main import main


@pytest.fixture
def tiny(monkeypatch):
    def question():
        small = questions.small()
        kept = tuple(c for c in small.candidates if c.name in ("plain copy", "echobuf"))
        settings = {**small.settings, "records": 1000, "batch": 10, "batches": 50}
        return replace(small, candidates=kept, settings=settings, settle_s=0)

    monkeypatch.setitem(questions.QUESTIONS, "small", (question, "small records"))
    assert command.QUESTIONS is questions.QUESTIONS


def test_it_measures_and_draws(tiny, tmp_path, capsys):
    assert main(["bench", "small", "--rounds", "2", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "echobuf" in out
    assert max(map(len, out.splitlines())) <= 100 + len(str(tmp_path))
    figures = json.loads((tmp_path / "small_batches.json").read_text())
    assert len(figures["results"]["echobuf"]["rounds_s"]) == 2
    assert figures["environment"]["command"]
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_a_candidate_that_fails_is_named_and_counts(monkeypatch, tmp_path, capsys):
    def broken():
        small = questions.small()
        return replace(small, settings={**small.settings, "records": 10})

    monkeypatch.setitem(questions.QUESTIONS, "small", (broken, "small records"))
    assert main(["bench", "small", "--rounds", "1", "--out", str(tmp_path)]) == 1
    assert "echobuf: no figure" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_bad_usage(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["bench", "small", "--out", str(tmp_path / "file")]) == 2
    assert "--out" in capsys.readouterr().err
