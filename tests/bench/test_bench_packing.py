"""The packers of bench/packing.py: none loses a token, and none beats the bound."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from echobuf.cli.bench import measure
from scripts import BENCH, importable

pytestmark = pytest.mark.host

SMALL = {"examples": 600, "mean": 20, "pack_to": 64, "window": 64}


@pytest.fixture
def packing(monkeypatch):
    with importable(monkeypatch, BENCH) as load:
        yield load("packing")


def small(packing):
    asked = packing.QUESTION
    return replace(asked, settings={**asked.settings, **SMALL}, settle_s=0)


def test_lengths_are_those_that_the_page_says(packing, monkeypatch):
    with importable(monkeypatch, BENCH) as load:
        peers = load("peers.pack_rows")
    for sigma in packing.SIGMAS:
        settings = {**packing.QUESTION.settings, "sigma": sigma}
        lengths = peers.make_lengths(settings)
        assert len(lengths) == settings["examples"]
        assert lengths.min() >= 1
        assert lengths.max() <= settings["pack_to"]
        # Cutting to a row takes some of the mean away, most with a large sigma.
        assert 0.7 * settings["mean"] < lengths.mean() < 1.02 * settings["mean"]
        spread = np.log(np.sort(lengths)[[len(lengths) // 4, len(lengths) // 2]])
        assert np.diff(spread)[0] / 0.6745 == pytest.approx(sigma, rel=0.05)


def test_waste_is_counted_for_each_packer_and_bounded(packing, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "trl", None)  # as where it is not installed
    counted = packing.wastes(small(packing))
    packing.print_wastes(counted)
    printed = capsys.readouterr().out
    bound = counted.pop(packing.BOUND.name)
    for name, row in counted.items():
        assert name in printed
        for sigma in packing.SIGMAS:
            waste = row[str(sigma)]
            if name.startswith("TRL"):
                assert "not there" in waste
            else:
                assert bound[str(sigma)] - 1e-9 <= waste < 1
    for sigma in map(str, packing.SIGMAS):
        assert counted["echobuf"][sigma] < counted["Python, one open row"][sigma]


def test_rows_are_counted_and_written(packing, tmp_path, monkeypatch):
    names = {"echobuf", "Python, 64 open rows"}
    asked = small(packing)
    chosen = tuple(c for c in asked.candidates if c.name in names)
    asked = replace(asked, candidates=chosen)
    outcomes = measure(asked, 1)
    assert outcomes.keys() == names
    for outcome in outcomes.values():
        assert not outcome.failed_at, outcome
        assert outcome.rounds[0]["units"] >= 600 * 15 / 64
    monkeypatch.setattr(packing, "QUESTION", asked)
    command = ["packing.py", "--rounds", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    packing.main()
    content = json.loads((tmp_path / "packing.json").read_text())
    assert content["waste"].keys() == {*names, packing.BOUND.name}
    assert content["results"].keys() == names
