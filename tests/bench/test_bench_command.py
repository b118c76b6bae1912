"""`echobuf bench`: tables, result files and the chart."""

import json
import re
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


@pytest.fixture
def first(monkeypatch):
    """Make the questions of `echobuf bench` by itself small."""
    sizes = {"records": 256, "window": 64, "batch": 16, "source": 64, "chunks": 1}

    def shrink(**path):
        for name in questions.FIRST:
            asked = questions.QUESTIONS[name]
            shrunk = [replace(each, settings=sizes) for each in asked.candidates]
            kept = {"candidates": tuple(shrunk), "settle_s": 0, **path}
            monkeypatch.setitem(questions.QUESTIONS, name, replace(asked, **kept))

    return shrink


def test_by_itself_it_says_in_words_how_fast_a_loader_and_a_put_are(
    first, tmp_path, capsys
):
    first()
    assert main(["bench", "--rounds", "2", "--out", str(tmp_path)]) == 0
    loader, put = capsys.readouterr().out.split("\n\n")[-2:]
    number = r"\d+\.\d+"
    assert re.fullmatch(
        r"EchoLoader serves [\d,]+ examples of 12 KB a second here: "
        rf"{number} of what bare copies allow, {number} times a NumPy ring, "
        rf"{number} times a DataLoader with a shuffle buffer\.",
        " ".join(loader.split()),
    )
    assert re.fullmatch(
        rf"A put of a small tensor and an int takes \d+ ns, {number} times one of an "
        r"array and np.int64\.",
        " ".join(put.split()),
    )


def test_without_torch_the_rest_is_measured(first, tmp_path, capsys):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch')")
    first(path=(tmp_path,))
    arguments = ["--rounds", "1", "--out", str(tmp_path), "--json"]
    assert main(["bench", *arguments]) == 0
    content = json.loads(capsys.readouterr().out)
    results = {**content["questions"]["loader"]["results"]}
    assert results.pop("DataLoader")["reason"] == "ModuleNotFoundError: no torch"
    assert all(figures["median_s"] for figures in results.values())
    (sentence,) = content["in_words"]
    assert sentence.endswith(" times a NumPy ring.")


def test_all_asks_every_question(first, tiny, monkeypatch, tmp_path, capsys):
    first()
    for name in set(questions.QUESTIONS) - {"puts", "small"}:
        monkeypatch.delitem(questions.QUESTIONS, name)
    arguments = ["all", "--rounds", "1", "--out", str(tmp_path), "--json"]
    assert main(["bench", *arguments]) == 0
    asked = json.loads(capsys.readouterr().out)["questions"]
    assert [*asked] == ["puts", "small"]


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
