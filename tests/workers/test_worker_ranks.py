"""Ranks that train together, each with worker processes of its own."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "ranks"))

from rank_processes import run  # noqa: E402 - beside the tests of ranks


@pytest.mark.parametrize(("uneven", "batches"), [("drop", 20), ("pad", 21)])
def test_ranks_agree_after_any_worker_is_killed(uneven, batches):
    told = run(HERE / "worker_rank_program.py", 2, uneven)
    for rank, epochs in enumerate(told):
        assert len(epochs) == 2
        for served in epochs:
            assert len(served) == batches
            assert {number % 2 for batch in served for number in batch} == {rank}
