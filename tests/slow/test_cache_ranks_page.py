"""The code in docs/cache_ranks.md works, and so does bench/locality.py."""

import json
import sys
from pathlib import Path

import pytest

import markdown
from ranks.rank_processes import run
from scripts import BENCH, importable

PAGE = Path(__file__).parents[2] / "docs" / "cache_ranks.md"

BEFORE = """
import json
import numpy as np

dataset = [(np.full((3, 4, 4), number, np.uint8), number) for number in range(60)]
labels = []


def train_step(batch):
    labels.extend(batch[1].tolist())

"""
AFTER = """
stats = cached.stats()
print(json.dumps({"labels": labels, "misses": stats.misses}))
dist.barrier()
dist.destroy_process_group()
"""


def test_the_example_runs(tmp_path):
    pytest.importorskip("torch")
    (code,) = markdown.blocks(PAGE, "python")
    for long, short in (
        ("2_000_000_000", "100_000"),
        ("batch_size=64", "batch_size=8"),
        ("num_workers=4", "num_workers=1"),
        ("range(10)", "range(3)"),
    ):
        assert long in code
        code = code.replace(long, short)
    code = code.replace("print(cached.stats())", "")
    (tmp_path / "train.py").write_text(BEFORE + code + AFTER)
    results = [said for (said,) in run(tmp_path / "train.py", 2)]
    assert sorted(results[0]["labels"] + results[1]["labels"]) == sorted(
        [*range(60)] * 3
    )
    assert sum(said["misses"] for said in results) == 60


def test_the_benchmark_runs(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    with importable(monkeypatch, BENCH) as load:
        script = load("locality")
        monkeypatch.setattr(script, "WAYS", ("locality-aware",))
        monkeypatch.setattr(script, "FITS", (1.0,))
        options = [
            "--ranks",
            "2",
            "--items",
            "60",
            "--epochs",
            "2",
            "--batch-size",
            "5",
        ]
        options += ["--trials", "30", "--most-ranks", "8", "--out", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", ["locality.py", *options])
        script.main()
    figures = json.loads((tmp_path / "locality.json").read_text())
    (way,) = (row for name, row in figures["counted"].items() if "fit" in name)
    first, later = way["epochs"]
    assert first["storage_bytes"] == figures["counted"]["bytes_of_data"]
    assert later["storage_bytes"] == 0
    for part, found in figures["simulated"].items():
        assert list(found["ranks"]) == ["2", "4", "8"]
        expected = (2 * 3.14159 * int(part)) ** -0.5
        for kind in ("thrown", "dealt"):
            assert 0.4 * expected < found["all"][kind]["mean"] < 1.3 * expected
