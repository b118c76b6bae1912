"""Measurements, predictions and sentences of the demo."""

# ruff: noqa: E402 (the packages that may be missing decide whether the tests can run)

import io
import json
import math

import pytest

from demo_parts import check_json, outcome, require_demo

require_demo()

import torch
from PIL import Image
from rich.console import Console

from echobuf.cli.demo import data, report, session
from echobuf.cli.demo.report import Costs
from echobuf.cli.demo.settings import Settings
from echobuf.cli.demo.training import TrainingTask
from echobuf.cli.main import main

# The costs and the verdict.


def test_next_bandwidth_brings_the_ratio_near():
    # With a constant t_downstream, t_upstream is inverse to the bandwidth.
    costs = Costs(upstream_s=200 / 50e3, downstream_s=0.5e-3)
    better = session.next_bandwidth(50e3, costs, 6.0)
    assert 200 / better / costs.downstream_s == pytest.approx(6.0)


def task(server, digits, folder, **settings):
    images, labels = data.test_set(folder, digits.test[:20])
    tensors = torch.from_numpy(images), torch.from_numpy(labels)
    return TrainingTask(Settings(**settings), server.port, digits.train, *tensors)


def test_calibration_keeps_a_given_bandwidth(server, digits, folder):
    chosen = task(server, digits, folder, bandwidth_kb_s=30.0, calibration_s=0.2)
    costs, bandwidth = session.calibrate(chosen, server)
    server.set_bandwidth(math.inf)
    assert bandwidth == 30_000.0
    # Each response has at least 100 bytes; a busy machine can only take longer.
    assert costs.upstream_s > 100 / 30_000
    assert costs.ratio == costs.upstream_s / costs.downstream_s > 0


def test_calibration_raises_what_the_upstream_raises(server, digits, folder):
    chosen = task(server, digits, folder, bandwidth_kb_s=1000.0)
    broken = TrainingTask(
        chosen.settings, chosen.port, ("0-0.png",), *([torch.zeros(1)] * 2)
    )
    with pytest.raises(RuntimeError, match="404"):
        session.calibrate(broken, server)


@pytest.mark.parametrize(
    ("baseline", "echoed", "words"),
    [
        (40.0, 10.0, "reached 95.0% in 10.0 s, 4.00 times sooner"),
        (40.0, 39.9, "made no difference"),
        (10.0, 20.0, "2.00 times later"),
        (10.0, 20.0, "it did not pay"),
        (10.0, None, "did not reach 95.0% within 75 s: it did not pay"),
        (None, 10.0, "no echoing not within 75 s: it paid"),
        (None, None, "nor did no echoing: it did not pay"),
    ],
)
def test_verdict(baseline, echoed, words):
    (line,) = outcome(baseline, echoed).verdicts()
    assert line.startswith("Batch echoing ")
    assert words in line


# The report.


def rendered(table):
    text = io.StringIO()
    Console(file=text, width=80).print(table)
    return text.getvalue()


def test_table_fits_a_terminal_and_has_all_figures():
    text = rendered(report.table(outcome(40.0, 10.0, 12.5, 9.0)))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    row = next(line for line in text.splitlines() if "example" in line).split()
    assert row[2:] == ["12.5", "8.3", "3,200", "650", "6.50", "6.2"]
    assert "every run" in text


def test_table_says_that_a_target_was_missed():
    text = rendered(report.table(outcome(None, 10.0)))
    row = next(line for line in text.splitlines() if "no echoing" in line)
    assert "not in 75" in row
    assert " - " in row


def test_json_has_everything_and_null_for_a_missed_target():
    content = report.as_json(outcome(None, 10.0, 12.5), ["echobuf", "demo"])
    content = json.loads(json.dumps(content, allow_nan=False))
    check_json(content)
    missed, reached, _ = content["runs"]
    assert (missed["reached"], missed["seconds"]) == (False, None)
    assert missed["predicted_s"] is None
    assert reached["seconds"] == 10.0
    assert reached["predicted_s"] == pytest.approx(3200 * 0.002)


@pytest.mark.parametrize("results", [(40.0, 10.0, 12.5), (None, None, None)])
def test_picture_is_a_png(tmp_path, results):
    path = tmp_path / "accuracy.png"
    report.write_picture(outcome(*results), path)
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert min(image.size) > 300


# Printed output.


@pytest.mark.parametrize("width", [60, 80])
def test_the_table_is_whole_in_a_narrow_terminal(width):
    text = io.StringIO()
    Console(file=text, width=width, _environ={}).print(
        report.table(outcome(None, 110.0, None, 9.0), width)
    )
    said = text.getvalue()
    assert max(map(len, said.splitlines())) <= width
    assert "\u2026" not in said
    assert said.count("not in 75") == 2
    for word in ("augmentation", "110.0", "seconds", "t_upstream,", "evaluations"):
        assert word in said.split() or word in said


@pytest.fixture
def called(monkeypatch, tmp_path):
    """The command, with a session that measures nothing."""
    found = outcome(40.0, 10.0, None, 9.0)
    monkeypatch.setattr(session, "_measure", lambda settings, console, write: found)

    def call(*arguments):
        return main(["demo", "--out", str(tmp_path / "out"), *arguments])

    return call


def test_as_json_it_prints_what_the_file_holds(called, capsys, tmp_path):
    assert called("--json") == 0
    captured = capsys.readouterr()
    content = json.loads(captured.out)
    check_json(content)
    assert content == json.loads((tmp_path / "out" / "demo.json").read_text())
    assert "example echoing" in captured.err


@pytest.mark.parametrize("width", [60, 80])
def test_lines_are_broken_between_words(called, capsys, monkeypatch, width, tmp_path):
    monkeypatch.setenv("COLUMNS", str(width))
    assert called() == 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= width
    assert "Batch echoing reached 95.0% in 10.0 s, 4.00 times" in " ".join(out.split())
