"""`echobuf bench`: measure echobuf beside plain copies and NumPy on this machine."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echobuf.cli import UsageError
from echobuf.cli.arguments import whole_number
from echobuf.cli.bench.environment import environment
from echobuf.cli.bench.questions import QUESTIONS
from echobuf.cli.bench.report import figures, print_table, write
from echobuf.cli.bench.rounds import Measured, Outcome, measure
from echobuf.cli.interrupt import exit_on_interrupt
from echobuf.cli.output import add_json_option, make_output_folder, print_json

__all__ = ["configure", "run"]

_Answers = dict[str, dict[str, Outcome]]

_OUT = Path("echobuf-bench")
_OWN, _OTHER = "#1b7f6b", "#b8bcc2"  # colours of echobuf and of other candidates


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    lines = "; ".join(f"{name}: {text}" for name, (_, text) in QUESTIONS.items())
    parser.epilog = (
        f"Questions: {lines}. Each candidate runs in a separate process, in "
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
    add_json_option(parser, "all figures")


def run(options: argparse.Namespace) -> int:
    """Measure, print a table for each question, write the figures and the chart.

    Returns:
        0, or 1 if a candidate gave no figure.
    """
    unknown = [name for name in options.questions if name not in QUESTIONS]
    if unknown:
        raise UsageError(
            f"unknown question {unknown[0]!r}; choose from {', '.join(QUESTIONS)}"
        )
    make_output_folder(options.out)
    redirect = contextlib.redirect_stdout(sys.stderr) if options.json else None
    with exit_on_interrupt(), redirect or contextlib.nullcontext():
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
        print(f"written: {_draw_chart(answers, options.out / 'bench.png')}")
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


def _draw_chart(answers: Mapping[str, Mapping[str, Outcome]], path: Path) -> Path:
    """Draw a panel for each question, with a bar for each candidate's speed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [1.0 + 0.32 * len(answer) for answer in answers.values()]
    figure = Figure(figsize=(8, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(
        len(answers), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    for row, (name, answer) in zip(panels, answers.items(), strict=True):
        _panel(row[0], QUESTIONS[name][1], answer)
    figure.savefig(path, dpi=120)
    return path


def _panel(panel: Any, title: str, answer: Mapping[str, Outcome]) -> None:
    measured = [o for o in answer.values() if isinstance(o, Measured)]
    bars_of = {o.candidate.name: o.ratio.median for o in measured if o.ratio}
    names, speeds = list(bars_of), list(bars_of.values())
    colours = [_OWN if name.startswith("echobuf") else _OTHER for name in names]
    bars = panel.barh(names, speeds, color=colours)
    panel.bar_label(bars, [f"{speed:.2f}" for speed in speeds], padding=3)
    panel.invert_yaxis()
    panel.margins(x=0.12)
    panel.set_title(title, loc="left", fontsize=10)
    panel.set_xlabel("speed over the reference", fontsize=8)
    panel.spines[["top", "right"]].set_visible(False)
