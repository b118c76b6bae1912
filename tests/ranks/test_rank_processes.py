"""Ranks as they are: processes with a process group."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAMS = Path(__file__).parent / "rank_programs.py"


def run(ranks, *arguments, killed=None):
    """What each rank has printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROGRAMS), *map(str, arguments)],
            env=os.environ
            | {
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
                "TORCH_CPP_LOG_LEVEL": "ERROR",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    told = []
    for rank, process in enumerate(processes):
        out, err = process.communicate(timeout=120)
        assert process.returncode == (-9 if rank == killed else 0), err
        assert "Exception ignored" not in err
        told.append([json.loads(line) for line in out.splitlines()])
    return told


def test_epochs_in_lockstep():
    told = run(3, "agrees")
    for rank, (*epochs, part) in enumerate(told):
        assert [one["epoch"] for one in epochs] == [1, 2] * 3
        batches = [one["batches"] for one in epochs]
        assert batches[:4] == [21, 21, 30, 30]
        assert batches == [one["batches"] for one in told[0][:-1]], "as many on all"
        if rank == 1:
            assert part["error"] == "OptionError"
            assert "which this rank is not in" in part["text"]
        else:
            assert part == {"length": 21, "batches": 21}


@pytest.mark.parametrize("rank", [1, 0])  # 0 keeps the store
def test_a_rank_that_dies_is_named_within_seconds(rank):
    told = run(3, "dies", rank, killed=rank)
    assert told.pop(rank) == []
    for (one,) in told:
        assert one["error"] == "UpstreamError"
        # Who was told first may have ended by the time that another one looks.
        named = re.match(r"ranks? ([\d, ]+) (is|are) gone: ", one["text"])
        assert named, one["text"]
        assert str(rank) in named[1].split(", ")
        assert one["took"] < 10


def test_ctrl_c_gets_through():
    assert run(2, "is_interrupted") == [[{"interrupted": True}]] * 2
