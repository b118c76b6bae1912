"""Side-by-side benchmarks: a process for each candidate, interleaved rounds, medians.

The scripts in `bench/` and the command `echobuf bench` are built on it: a `Question`
is a table of candidates, `measure` times them, and `report` prints and writes.
"""

from echobuf.cli.bench.questions import Candidate, Question
from echobuf.cli.bench.report import print_table
from echobuf.cli.bench.rounds import Outcome, measure

__all__ = ["Candidate", "Outcome", "Question", "measure", "print_table"]
