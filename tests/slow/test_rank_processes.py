"""Ranks that are processes with a process group."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ranks.rank_processes import run

pytest.importorskip("torch")

PROGRAMS = Path(__file__).parents[1] / "ranks" / "rank_programs.py"


def test_ranks_take_as_many_batches_in_lockstep():
    printed = run(PROGRAMS, 3, "train")
    for rank, (*epochs, part) in enumerate(printed):
        assert [one["epoch"] for one in epochs] == [1, 2] * 3
        batches = [one["batches"] for one in epochs]
        assert batches[:4] == [21, 21, 30, 30]
        assert batches == [one["batches"] for one in printed[0][:-1]], "as many on all"
        if rank == 1:
            assert part["error"] == "OptionError"
            assert "which this rank is not in" in part["text"]
        else:
            assert part == {"length": 21, "batches": 21}


@pytest.mark.parametrize("rank", [1, 0])  # 0 keeps the store
def test_a_rank_that_dies_is_named_within_seconds(rank):
    printed = run(PROGRAMS, 3, "kill_one", rank, killed=rank)
    assert printed.pop(rank) == []
    for (one,) in printed:
        assert one["error"] == "UpstreamError"
        # The first rank to raise may have ended by the time that another one looks.
        named = re.match(r"ranks? ([\d, ]+) (is|are) gone: ", one["text"])
        assert named, one["text"]
        assert str(rank) in named[1].split(", ")
        assert one["took"] < 60  # that of collectives would be half an hour


def test_ctrl_c_interrupts_a_waiting_rank():
    assert run(PROGRAMS, 2, "interrupt") == [[{"interrupted": True}]] * 2
