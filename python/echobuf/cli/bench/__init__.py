"""Compares candidates side by side: a process each, interleaved rounds, medians.

The scripts in `bench/` and the command `echobuf bench` are built from it:
`question` says what is compared, `rounds` measures, `report` prints and writes.
"""

from echobuf.cli.bench.question import Candidate, Question
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
