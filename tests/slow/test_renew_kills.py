"""A training on renewed items is killed at random times, and resumed by its epoch."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

TESTS = Path(__file__).parents[1]
EPOCHS = 20
KILLS = 6

TRAIN = """
import hashlib, json, os, sys
sys.path[:0] = {path!r}
from torch.utils.data import DataLoader
from renewed_data import make

directory, log = sys.argv[1:]
cached = make(directory, 4)
loader = DataLoader(cached, num_workers=2, batch_size=3, collate_fn=list)
done = open(log).read().splitlines() if os.path.exists(log) else []
for epoch in range(len(done), {epochs}):
    cached.set_epoch(epoch)
    digest = hashlib.sha256()
    for batch in loader:
        for item in batch:
            digest.update(item["x"])
    with open(log, "a") as file:
        file.write(json.dumps([epoch, digest.hexdigest()]) + "\\n")
    print(epoch, flush=True)
stats = cached.stats()
print(json.dumps([stats.items, stats.bytes, stats.damaged]))
"""


def start(folder: Path, name: str) -> subprocess.Popen[str]:
    program = TRAIN.format(
        path=[str(TESTS), str(TESTS / "cache"), *sys.path], epochs=EPOCHS
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, folder / name, folder / f"{name}.log"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # its workers are killed with it
    )


def test_a_training_that_is_killed_serves_what_one_that_is_not_serves(tmp_path):
    whole = start(tmp_path, "whole")
    last = whole.communicate(timeout=240)[0].splitlines()[-1]
    chance = random.Random(4)
    for kill in range(KILLS):
        program = start(tmp_path, "killed")
        assert program.stdout is not None
        for _ in range(1 + kill % 3):
            program.stdout.readline()
        time.sleep(chance.uniform(0, 0.05))
        os.killpg(program.pid, signal.SIGKILL)
        program.communicate(timeout=60)
        files = list((tmp_path / "killed" / "items").glob("*/*"))
        assert len(files) <= 12
    resumed = start(tmp_path, "killed")
    assert resumed.communicate(timeout=240)[0].splitlines()[-1] == last
    rows = [
        list(map(json.loads, (tmp_path / f"{name}.log").read_text().splitlines()))
        for name in ("whole", "killed")
    ]
    assert rows[0] == rows[1]
    assert [epoch for epoch, _ in rows[0]] == list(range(EPOCHS))
    assert len({digest for _, digest in rows[0]}) == EPOCHS
