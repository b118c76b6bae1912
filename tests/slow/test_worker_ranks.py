"""Ranks that train together, each with worker processes of its own."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from ranks.rank_processes import run

PROGRAM = Path(__file__).parents[1] / "workers" / "worker_rank_program.py"


@pytest.mark.parametrize(("uneven", "batches"), [("drop", 20), ("pad", 21)])
def test_ranks_agree_after_any_worker_is_killed(uneven, batches):
    told = run(PROGRAM, 2, uneven)
    for rank, epochs in enumerate(told):
        assert len(epochs) == 2
        for served in epochs:
            assert len(served) == batches
            assert {number % 2 for batch in served for number in batch} == {rank}
