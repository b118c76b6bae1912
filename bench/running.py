"""Options and main function that all benchmark scripts share."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from echobuf.cli.arguments import whole_number
from echobuf.cli.bench.questions import Candidate, Question
from echobuf.cli.bench.report import figures, print_table, write_figures
from echobuf.cli.bench.rounds import measure

__all__ = ["make_parser", "run", "select"]


def make_parser(description: str | None, out: Path) -> argparse.ArgumentParser:
    """Make a parser with the options of all benchmarks; results go to `out`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--rounds", type=whole_number, default=11, help="rounds measured (11)"
    )
    parser.add_argument(
        "--out", type=Path, default=out, help="folder of the result file"
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="A,B",
        help="only candidates with one of these words in their name or module; "
        "the reference is always there",
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PEER=PATH",
        help="interpreter for the candidates with this word in their name or module "
        "(PATH alone: for all); may be given several times",
    )
    return parser


def select(question: Question, options: argparse.Namespace) -> Question:
    """Return the question with the chosen candidates and interpreters only."""
    words = [word for word in options.only.split(",") if word] or [""]
    kept = [c for c in question.candidates if any(_has(c, word) for word in words)]
    needed = {question.reference, *map(question.reference_of, kept)}
    candidates = [c for c in question.candidates if c in kept or c.name in needed]
    for choice in options.python:
        word, _, path = choice.rpartition("=")
        candidates = [
            replace(c, python=path) if _has(c, word) else c for c in candidates
        ]
    return replace(question, candidates=tuple(candidates))


def _has(candidate: Candidate, word: str) -> bool:
    text = f"{candidate.name} {candidate.target.partition(':')[0]}".lower()
    return word.strip().lower() in text


def run(question: Question, options: argparse.Namespace) -> None:
    """Measure the chosen candidates, print the table, write the result file."""
    chosen = select(question, options)
    outcomes = measure(chosen, options.rounds)
    print_table(chosen, outcomes)
    write_figures(chosen.name, options.out, figures(chosen, outcomes))
