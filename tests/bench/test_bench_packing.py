"""A run of bench/packing.py counts rows and waste, and writes them."""

import json
import sys
from dataclasses import replace

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
