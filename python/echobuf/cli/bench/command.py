"""The command `echobuf bench`: echobuf beside plain copies and NumPy, here."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from echobuf.cli import UsageError
from echobuf.cli.arguments import whole_number
from echobuf.cli.bench.environment import environment
from echobuf.cli.bench.questions import QUESTIONS
from echobuf.cli.bench.report import figures, print_table, write
from echobuf.cli.bench.rounds import Measured, Outcome, measure
from echobuf.cli.interrupt import ending_on_interrupt
from echobuf.cli.output import check_folder, json_option, print_json

__all__ = ["configure", "run"]

_Answers = dict[str, dict[str, Outcome]]

_OUT = Path("echobuf-bench")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    lines = "; ".join(f"{name}: {text}" for name, (_, text) in QUESTIONS.items())
    parser.epilog = (
        f"Questions: {lines}. Each candidate runs in a process of its own, in "
        "interleaved rounds; leave the machine otherwise idle. Takes a few minutes. "
        "Needs matplotlib for the chart. Exit codes: 0, or 1 if a candidate gave no "
        "figure. With --json all else goes to stderr."
    )
    parser.add_argument(
        "questions",
        nargs="*",
        metavar="QUESTION",
        help=f"which to ask: {', '.join(QUESTIONS)} (default: all)",
    )
    parser.add_argument(
        "--rounds", type=whole_number, default=7, help="rounds measured (%(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=_OUT,
        metavar="FOLDER",
        help="folder for the chart and the JSON files (default: %(default)s)",
    )
    json_option(parser, "all figures")


def run(options: argparse.Namespace) -> int:
    """Measures, prints a table a question, writes the figures and the chart.

    Returns:
        0, or 1 if a candidate gave no figure.
    """
    unknown = [name for name in options.questions if name not in QUESTIONS]
    if unknown:
        raise UsageError(
            f"unknown question {unknown[0]!r}; choose from {', '.join(QUESTIONS)}"
        )
    check_folder(options.out)
    told = contextlib.redirect_stdout(sys.stderr) if options.json else None
    with ending_on_interrupt(), told or contextlib.nullcontext():
        answers = _measure(options)
    if options.json:
        print_json(_as_json(answers))
    measured = [o for row in answers.values() for o in row.values()]
    return 0 if all(isinstance(outcome, Measured) for outcome in measured) else 1


def _measure(options: argparse.Namespace) -> _Answers:
    answers: _Answers = {}
    for name in options.questions or QUESTIONS:
        question = QUESTIONS[name][0]()
        answers[name] = measure(question, options.rounds)
        print_table(question, answers[name])
        write(question, answers[name], options.out)
    if importlib.util.find_spec("matplotlib") is None:
        print("no chart: pip install matplotlib")
    else:
        from echobuf.cli.bench.picture import draw

        print(f"written: {draw(answers, options.out / 'bench.png')}")
    return answers


def _as_json(answers: _Answers) -> dict[str, Any]:
    from echobuf import __version__

    return {
        "format": 1,
        "echobuf": __version__,
        "environment": environment(),
        "questions": {
            name: figures(QUESTIONS[name][0](), row) for name, row in answers.items()
        },
    }
