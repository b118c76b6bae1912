"""The code in docs/cache.md works, and so does bench/cache.py."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import markdown
from scripts import BENCH, importable

PAGE = Path(__file__).parents[2] / "docs" / "cache.md"
BLOCKS = markdown.blocks(PAGE, "python")
IMAGES = [(np.full((3, 4, 4), number, np.uint8), number) for number in range(64)]


def run(code, **names):
    code = code.replace("2_000_000_000", "1_000_000").replace("4096", "64")
    exec(code, names)
    return names


def test_the_first_example_runs(capsys):
    pytest.importorskip("torch")
    labels = []
    small = BLOCKS[0].replace("workers=4", "workers=1").replace("range(10)", "range(3)")
    run(small, dataset=IMAGES, train_step=lambda batch: labels.extend(batch[1]))
    assert sorted(map(int, labels)) == sorted([*range(64)] * 6)
    results = [int(line.split("%")[0]) for line in capsys.readouterr().out.splitlines()]
    assert results == [int(f"{100 * n / (n + 1):.0f}") for n in range(3)]


def test_the_example_of_prepare_and_transform_runs():
    import echobuf.cache

    names = run(
        BLOCKS[1],
        echobuf=echobuf,
        files=[bytes([number]) for number in range(5)],
        decode=lambda data: np.frombuffer(data, np.uint8),
        augment=lambda array: array + 1,
    )
    for _ in range(2):
        assert list(names["cached"]) == [1, 2, 3, 4, 5]


def test_the_examples_of_a_disk_and_of_stats_run(tmp_path, capsys):
    import echobuf.cache

    code = BLOCKS[2].replace("/scratch", str(tmp_path))
    names = run(code, echobuf=echobuf, dataset=[bytes(100)] * 5)
    assert list(names["cached"]) == [bytes(100)] * 5
    assert names["cached"][2] == bytes(100)
    run(BLOCKS[4], cached=names["cached"])
    hits, misses, damaged, items, size = map(int, capsys.readouterr().out.split())
    assert (hits, misses, damaged, items) == (1, 5, 0, 5)
    assert 5 * 100 < size < 5 * 300
    assert len(BLOCKS) == 5


def test_the_example_of_items_that_are_renewed_runs(tmp_path):
    pytest.importorskip("torch")
    seen = []
    code = (
        BLOCKS[3].replace("/scratch", str(tmp_path)).replace("range(100)", "range(9)")
    )
    names = run(
        code.replace("workers=4", "workers=1"),
        images=list(np.zeros((64, 3), np.uint8)),
        deform=lambda image, chance: image + chance.random(3),
        train_step=lambda batch: seen.append(batch[:, 0].sort().values.tolist()),
    )
    assert len(seen) == 9
    for before, after in itertools.pairwise(seen):
        assert len(set(before) - set(after)) == 16
    stats = names["cached"].stats()
    assert (stats.misses, stats.items) == (64 + 8 * 16, 64)


def test_importing_the_cache_brings_in_no_framework():
    code = (
        "import sys, echobuf.cache; print({'torch', 'sqlite3', 'jax'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"set()"
    code = "import sys, echobuf; print('echobuf.cache' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"False"


def test_the_benchmark_runs(tmp_path, monkeypatch):
    with importable(monkeypatch, BENCH) as load:
        script = load("cache")
        options = ["--items", "60", "--epochs", "3", "--delay-us", "0"]
        monkeypatch.setattr(sys, "argv", ["cache.py", *options, "--out", str(tmp_path)])
        script.main()
    figures = json.loads((tmp_path / "cache.json").read_text())
    for kind, shares in figures["results"].items():
        for share, rows in shares.items():
            assert rows["no cache"]["epoch_s"] > 0
            assert (rows["no cache"]["hit_rate"], rows["no cache"]["saved"]) == (0, 0)
            memory, disk = rows["echobuf, memory"], rows["echobuf, disk"]
            assert memory["hit_rates"] == disk["hit_rates"], (kind, share)
            assert memory["hit_rates"][0] == 0
            assert rows["LRU"]["hit_rate"] < memory["hit_rate"]
            # A few items decide here; bench/cache.py has thousands.
            assert abs(memory["hit_rate"] - float(share)) < 0.15
