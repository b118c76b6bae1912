"""Side-by-side benchmarks: a process for each candidate, interleaved rounds, medians.

The scripts in `bench/` and the command `echobuf bench` are built on it: `questions`
defines the comparisons, `rounds` measures, `report` prints and writes.
"""

from echobuf.cli.bench.questions import Candidate, Question
from echobuf.cli.bench.report import print_table, write
from echobuf.cli.bench.rounds import Failed, Measured, measure

__all__ = [
    "Candidate",
    "Failed",
    "Measured",
    "Question",
    "measure",
    "print_table",
    "write",
]
