"""Chains of bench/augment_chains.py: what echobuf makes of them, and the table."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from scripts import BENCH, importable

SMALL = {"records": 8, "batch": 4, "threads": 1}


@pytest.fixture
def load(monkeypatch):
    with importable(monkeypatch, BENCH) as load:
        yield load


@pytest.fixture
def script(load):
    return load("augment_chains")


def titles_of_chains(missing):
    with pytest.MonkeyPatch.context() as patch, importable(patch, BENCH) as load:
        return [chain.title for chain in load("augment_chains").chosen([])[missing]]


def chain_of(script, title):
    (chain,) = [chain for chain in script.chains.CHAINS if chain.title == title]
    return chain


@pytest.mark.parametrize("title", titles_of_chains(missing=False))
@pytest.mark.parametrize("out", [False, True])
def test_echobuf_makes_what_a_chain_says(script, load, title, out):
    draw = load("peers.chain_echobuf").Draw
    chain = chain_of(script, title)
    candidate = draw({**SMALL, **chain.settings, "out": out})
    candidate.warm_up()  # shape, dtype, mean and contrast
    assert candidate.run() == 1


def test_the_table_of_the_docs_is_that_of_the_result_file(script):
    content = json.loads((BENCH / "results" / "augment_chains.json").read_text())
    docs = (BENCH.parent / "docs" / "transforms.md").read_text()
    assert script.markdown(content["results"]) in docs
    titles = [chain.title for chain in script.chains.CHAINS]
    assert sorted([*content["results"], *content["missing"]]) == sorted(titles)


def test_chains_can_be_measured_one_after_the_other(tmp_path):
    results = {}
    for text in ("randomcrop, float32", "bfloat16"):
        command = [sys.executable, BENCH / "augment_chains.py", "--chains", text]
        options = ["--quick", "--rounds", "1", "--only", "copy", "--out", tmp_path]
        subprocess.run([*command, *options], check=True, timeout=120)
        content = json.loads((tmp_path / "augment_chains.json").read_text())
        results.update(content["results"])
    assert content["results"].keys() == results.keys()
    assert len(results) == len(content["commands"]) == 2
    for candidates in results.values():
        assert candidates.keys() == {"copy of the bytes", "echobuf"}
        for row in candidates.values():
            assert row["median_s"] > 0
