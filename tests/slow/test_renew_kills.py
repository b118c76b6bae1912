"""A training on renewed items is killed at random times, and resumed by its epoch."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from torch.utils.data import DataLoader

from helpers import WAIT_S
from renewed_data import make

EPOCHS = 30
KILLS = 6


def train(directory: Path, log: Path, pipe: Any) -> None:
    """Train from the first epoch that the log lacks; send each, and what is kept."""
    os.setsid()  # its workers are killed with it
    cached = make(directory, 4)
    loader: Any = DataLoader(cached, num_workers=2, batch_size=3, collate_fn=list)
    done = log.read_text().splitlines() if log.exists() else []
    for epoch in range(len(done), EPOCHS):
        cached.set_epoch(epoch)
        digest = hashlib.sha256()
        for batch in loader:
            for item in batch:
                digest.update(item["x"])
        with log.open("a") as file:
            file.write(json.dumps([epoch, digest.hexdigest()]) + "\n")
        pipe.send(epoch)
    stats = cached.stats()
    pipe.send((stats.items, stats.bytes, stats.damaged))


def start(folder: Path, name: str) -> tuple[Any, Any]:
    """Start a training in a process that has imported torch."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    arguments = (folder / name, folder / f"{name}.log", theirs)
    process = fork.Process(target=train, args=arguments)
    process.start()
    theirs.close()
    return process, ours


def kept_at_its_end(process: Any, pipe: Any) -> Any:
    """Wait for the end of a training, and return what it has kept."""
    while isinstance(kept := pipe.recv(), int):
        pass
    process.join(WAIT_S)
    assert process.exitcode == 0
    return kept


def test_a_training_that_is_killed_serves_what_one_that_is_not_serves(tmp_path):
    last = kept_at_its_end(*start(tmp_path, "whole"))
    chance = random.Random(4)
    for kill in range(KILLS):
        process, pipe = start(tmp_path, "killed")
        for _ in range(1 + kill % 3):
            pipe.recv()
        time.sleep(chance.uniform(0, 0.05))
        os.killpg(process.pid, signal.SIGKILL)
        process.join(WAIT_S)
        files = list((tmp_path / "killed" / "items").glob("*/*"))
        assert len(files) <= 12
    assert kept_at_its_end(*start(tmp_path, "killed")) == last
    rows = [
        list(map(json.loads, (tmp_path / f"{name}.log").read_text().splitlines()))
        for name in ("whole", "killed")
    ]
    assert rows[0] == rows[1]
    assert [epoch for epoch, _ in rows[0]] == list(range(EPOCHS))
    assert len({digest for _, digest in rows[0]}) == EPOCHS
