"""`echobuf bench`: measure echobuf beside plain copies and NumPy on this machine."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path

from echobuf._installed import __version__
from echobuf.cli import UsageError, exit_on_interrupt, is_installed
from echobuf.cli.arguments import whole_number
from echobuf.cli.bench.questions import FIRST, QUESTIONS
from echobuf.cli.bench.report import WIDTH, figures, print_table, write_figures
from echobuf.cli.bench.rounds import Outcome, measure
from echobuf.cli.bench.words import sentences
from echobuf.cli.environment import environment
from echobuf.cli.output import (
    add_json_option,
    add_out_option,
    make_output_folder,
    print_json,
    wrapped,
)

_ALL = "all"  # in place of a question
_OWN, _OTHER = "#1b7f6b", "#b8bcc2"  # colours of echobuf and of other candidates


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    lines = "; ".join(f"{name}: {asked.about}" for name, asked in QUESTIONS.items())
    parser.epilog = (
        f"Questions: {lines}. {' and '.join(FIRST)} take less than a minute, all of "
        "them several. Each candidate runs in a separate process, in interleaved "
        "rounds; leave the machine otherwise idle. Needs matplotlib for the chart. "
        "Candidates that need torch have no figure without it. Exit codes: 0, or 1 if "
        "a candidate failed. With --json all else goes to stderr."
    )
    parser.add_argument(
        "questions",
        nargs="*",
        metavar="QUESTION",
        help=f"which to ask: {', '.join(QUESTIONS)}, or {_ALL} (default: "
        f"{' and '.join(FIRST)})",
    )
    parser.add_argument(
        "--rounds", type=whole_number, default=7, help="rounds measured (%(default)s)"
    )
    add_out_option(parser, Path("echobuf-bench"), "the chart and the JSON files")
    add_json_option(parser, "all figures")


def run(options: argparse.Namespace) -> int:
    """Measure, print tables and sentences, write the figures and the chart."""
    known = {*QUESTIONS, _ALL}
    unknown = [name for name in options.questions if name not in known]
    if unknown:
        raise UsageError(
            f"unknown question {unknown[0]!r}; choose from "
            f"{', '.join(QUESTIONS)}, {_ALL}"
        )
    asked = QUESTIONS if _ALL in options.questions else options.questions or FIRST
    make_output_folder(options.out)
    answers, found = {}, {}
    redirect = contextlib.redirect_stdout(sys.stderr) if options.json else None
    with exit_on_interrupt(), redirect or contextlib.nullcontext():
        for name in asked:
            question = QUESTIONS[name]
            answers[name] = measure(question, options.rounds)
            print_table(question, answers[name])
            found[name] = figures(question, answers[name])
            write_figures(question.name, options.out, found[name])
        if not is_installed("matplotlib"):
            print("no chart: pip install matplotlib")
        else:
            print(f"written: {_draw_chart(answers, options.out / 'bench.png')}")
        said = sentences(answers)
        for sentence in said:
            print(f"\n{wrapped(sentence, most=WIDTH)}")
    if options.json:
        about = {"echobuf": __version__, "environment": environment()}
        print_json({"format": 1, **about, "questions": found, "in_words": said})
    stages = {each.failed_at for row in answers.values() for each in row.values()}
    return int(bool(stages - {"", "import"}))  # "import": a package is not installed


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
    for panel, (name, answer) in zip(panels.flat, answers.items(), strict=True):
        speeds = {each: o.ratio.median for each, o in answer.items() if o.ratio}
        colours = [_OWN if each.startswith("echobuf") else _OTHER for each in speeds]
        bars = panel.barh(list(speeds), list(speeds.values()), color=colours)
        panel.bar_label(bars, [f"{speed:.2f}" for speed in speeds.values()], padding=3)
        panel.invert_yaxis()
        panel.margins(x=0.12)
        panel.set_title(QUESTIONS[name].about, loc="left", fontsize=10)
        panel.set_xlabel("speed over the reference", fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    return path
