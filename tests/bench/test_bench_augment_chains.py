"""Chains of bench/augment_chains.py: what echobuf makes of them, and the table."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from echobuf import transforms
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


def test_there_are_sixteen_chains_of_several_dtypes_and_layouts(script):
    there, _ = script.chosen([])
    assert len(there) >= 16
    assert {chain.dtype for chain in there} == {"uint8", "float32"}
    assert {chain.layout for chain in there} == {"HWC", "CHW"}
    results = {chain.settings["result"]["dtype"] for chain in there}
    assert results == {"uint8", "float16", "bfloat16", "float32"}
    names = [chain.title for chain in script.chains.CHAINS]
    assert len(set(names)) == len(names)


def test_chains_are_left_out_only_where_an_operation_is_missing(script):
    there, missing = script.chosen([])
    assert len(there) + len(missing) == len(script.chains.CHAINS)
    for chain in missing:
        assert not chain.names <= set(transforms.__all__)
    unknown = replace(there[0], operations=(("Unknown", {}),))
    script.chains.CHAINS = (*there, unknown)
    assert script.chosen([]) == (there, [unknown])


@pytest.mark.parametrize("title", titles_of_chains(missing=False))
@pytest.mark.parametrize("out", [False, True])
def test_echobuf_makes_what_a_chain_says(script, load, title, out):
    draw = load("peers.chain_echobuf").Draw
    chain = chain_of(script, title)
    candidate = draw({**SMALL, **chain.settings, "out": out})
    candidate.warm_up()  # shape, dtype, mean and contrast
    assert candidate.run() == 1


def test_a_batch_that_is_not_what_a_chain_says_is_found(script, load):
    draw = load("peers.chain_echobuf").Draw
    settings = {
        **SMALL,
        **chain_of(script, "crop, flip, normalise, uint8 HWC").settings,
    }
    for wrong in ({"size": 223}, {"dtype": "float16"}, {"layout": "HWC"}):
        with pytest.raises(AssertionError):
            draw({**settings, "result": {**settings["result"], **wrong}}).warm_up()
    without = [one for one in settings["operations"] if one[0] != "Normalize"]
    candidate = draw({**settings, "operations": without})
    candidate.chain = [tuple(one) for one in settings["operations"]]
    with pytest.raises(AssertionError, match="mean"):
        candidate.warm_up()


def test_a_candidate_is_asked_only_for_operations_that_it_has(script):
    for chain in script.chosen([])[0]:
        asked = script.question(chain)
        assert asked.name == chain.title
        names = {candidate.name for candidate in asked.candidates}
        assert set(script.TORCHVISION) <= names  # it has them all
        assert script.COPY in names
        assert (script.OUT in names) <= chain.out
        for candidate in asked.candidates:
            module, _, kind = candidate.target.partition(":")
            made = getattr(importlib.import_module(module), kind)
            assert not inspect.isabstract(made)
            promised = dict(made.guarantees)
            assert promised.keys() == {
                "exact use",
                "shuffled",
                "duplicates in a batch",
                "batch",
                "timed",
            }
            assert made.has(chain.settings)
            assert made.packages
    classic = chain_of(script, "crop, flip, normalise, float16, uint8 HWC")
    names = {candidate.name for candidate in script.question(classic).candidates}
    assert not {"OpenCV", "albumentations"} & names


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("RandomCrop, uint8 CHW", 2 * 224 * 224 * 3),
        ("RandomHorizontalFlip, uint8 CHW", 2 * 256 * 256 * 3),
        ("RandomCrop, float32 HWC", 8 * 224 * 224 * 3),
        ("crop, flip, normalise, uint8 HWC", 5 * 224 * 224 * 3),
        ("crop, flip, normalise, float16, uint8 HWC", 3 * 224 * 224 * 3),
        ("Resize, uint8 HWC", (256 * 256 + 224 * 224) * 3),
        ("MixUp, float32 CHW", 12 * 256 * 256 * 3),
    ],
)
def test_the_copy_moves_the_bytes_that_are_read_and_written(
    script, load, title, expected
):
    settings = chain_of(script, title).settings
    assert settings["bytes"] == expected
    copy = load("peers.chain_copy").Moved({**SMALL, **settings})
    copy.warm_up()
    assert copy.target.nbytes == SMALL["batch"] * expected // 2
    np.testing.assert_array_equal(copy.target, 1)


def rows(**seconds):
    drawn = seconds["echobuf"]
    return {
        name.replace("_", ", ") if "torch" in name else name.replace("_", " "): {
            "median_s": one,
            "speed_over_reference": drawn / one,
        }
        for name, one in seconds.items()
    }


def test_echobuf_is_compared_with_the_faster_of_torchvisions_ways(script):
    quick = rows(echobuf=0.002, torchvision_batch=0.001, torchvision_images=0.004)
    assert script.over(quick, script.TORCHVISION) == 2.0
    failed = {**quick, "torchvision, batch": {"failed_at": "import", "reason": "-"}}
    assert script.over(failed, script.TORCHVISION) == 0.5
    assert script.over({"echobuf": quick["echobuf"]}, script.TORCHVISION) is None
    assert script.slower({"a": quick, "b": failed}) == ["a"]


def test_the_table_has_times_and_ratios(script):
    both = rows(
        echobuf=0.002, torchvision_batch=0.004, torchvision_images=0.5, copy=0.001
    )
    both[script.COPY] = both.pop("copy")
    both[script.OUT] = {"median_s": 0.00304, "speed_over_reference": 0.6}
    lines = script.markdown({"RandomCrop of it, uint8 CHW": both}).splitlines()
    assert lines[2] == (
        "| `RandomCrop` of it | uint8 CHW | 1.0 | 2.0 (`out=` 3.0) | 4.0 | 500 | - | - "
        "| 0.50 | 2.00 |"
    )
    assert len({line.count(" | ") for line in lines}) == 1


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
