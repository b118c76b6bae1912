"""`echobuf analyze`: measure whether training waits for its input, and what helps."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echobuf.cli import UsageError, exit_on_interrupt, require
from echobuf.cli.arguments import (
    call_target,
    load_target,
    number,
    positive,
    rate,
    share,
    whole_number,
    with_option_names,
)
from echobuf.cli.output import check_output_file
from echobuf.repeats import LIFETIME, Repeats

if TYPE_CHECKING:
    from echobuf.analysis import Cluster, Report

_STDOUT = "-"
_UNDECIDED = 3  # the exit code
_MEASURE = ("batch_size", "window", "max_factor", "length", "seconds", "timeout")
_OF_RANKS = ("storage_rate", "peer_rate", "shares")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.epilog = (
        "NAME is a function without arguments that returns `upstream, step`: an "
        "iterable of batches (or of examples, with --batch-size), such as a "
        "DataLoader, and a function that trains on one batch. Exit codes: 0 when it "
        "was measured, 2 when it could not be; with --check 1 for an input stall, and "
        "3 where it was measured too short, or too unevenly, to tell whether echoing "
        "pays: that is no stall, measure for longer (--seconds)."
    )
    parser.add_argument(
        "target", metavar="FILE:NAME", help="what to analyze, such as train.py:make"
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        default=30.0,
        help="time to measure for (default: %(default)g)",
    )
    parser.add_argument(
        "--timeout",
        type=positive,
        default=60.0,
        metavar="SECONDS",
        help="how long one item of upstream may take (default: %(default)g)",
    )
    for name, text in {
        "batch-size": "examples that the step takes (default: those of upstream's "
        "batches)",
        "window": "examples in the window to predict for (default: 32 batches)",
        "max-factor": "largest factor of 'auto' (default: 8, or that of an EchoLoader)",
        "length": "examples in an epoch, where upstream does not say",
    }.items():
        parser.add_argument(f"--{name}", type=whole_number, metavar="N", help=text)
    parser.add_argument(
        "--epochs",
        type=number,
        default=1.0,
        metavar="N",
        help="epochs of the training, to price echoes with (default: %(default)g)",
    )
    parser.add_argument(
        "--repeat-lifetime",
        dest="lifetime",
        type=number,
        default=LIFETIME,
        metavar="N",
        help="repeats after which a further one is worth 1/e of the first (default: "
        "15.39, fitted to language models)",
    )
    _add_ranks(parser)
    parser.add_argument(
        "--json",
        metavar="PATH",
        help="write the report as JSON, to a file, or to '-' in place of the table",
    )
    parser.add_argument(
        "--plot",
        dest="path",
        type=Path,
        metavar="PATH",
        help="draw the predicted curve (.png, .svg, .pdf)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit with 1 if the step waits for its input, and with 3 if nothing can "
        "be told yet (for scripts)",
    )


def _add_ranks(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a job of several ranks")
    group.add_argument(
        "--ranks",
        type=whole_number,
        metavar="N",
        help="predict epochs on so many ranks, too, with caches and without",
    )
    for name, text in {
        "storage-rate": "examples a second that storage gives to all ranks together "
        "(default: as many as it gave to this process)",
        "peer-rate": "examples a second that ranks fetch from each other's caches, all "
        "together (default: as if that cost nothing)",
    }.items():
        group.add_argument(f"--{name}", type=rate, metavar="X", help=text)
    group.add_argument(
        "--cached",
        dest="shares",
        type=share,
        nargs="+",
        metavar="SHARE",
        help="shares of the data set that the caches of all ranks hold together "
        "(default: 0.25 0.5 0.75 1)",
    )


_BATCHED = {  # arguments in messages, and the options for them
    "with batched=True": "without --batch-size",
    "Pass batched=False": "Give --batch-size",
    "batched=True": "leave --batch-size out",
}


def run(options: argparse.Namespace) -> int:
    """Analyze the target, print the report, and write the files of the options.

    Returns:
        0; with `--check`, 1 if there is an input stall, 3 if the timings do not suffice
        to tell.
    """
    from echobuf.errors import EchobufError

    try:
        _check_outputs(options)
        with exit_on_interrupt():  # imports of frameworks take seconds
            found = load_target(options.target)
        report = _analyze(*_made(found, options.target), options)
        _write(report, options)
    except EchobufError as error:
        names = {name: f"`{option}`" for name, option in options.option_names.items()}
        said = with_option_names(error, names)
        for argument, option in _BATCHED.items():
            said = said.replace(argument, option)
        raise UsageError(said) from error
    if not options.check:
        return 0
    return _UNDECIDED if report.pays is None else int(report.input_stall)


def _analyze(upstream: Any, step: Any, options: argparse.Namespace) -> Report:
    from echobuf.analysis import analyze

    progress = None
    if sys.stderr.isatty():

        def progress(name: str) -> None:
            print(f"measuring: {name}", file=sys.stderr, flush=True)

    return analyze(
        upstream,
        step,
        progress=progress,
        cluster=_cluster(options),
        repeats=Repeats(options.epochs, options.lifetime),
        **{name: getattr(options, name) for name in _MEASURE},
    )


def _cluster(options: argparse.Namespace) -> Cluster | None:
    values = {name: getattr(options, name) for name in _OF_RANKS}
    given = {name: value for name, value in values.items() if value is not None}
    if options.ranks is None:
        if given:
            raise UsageError(
                "--storage-rate, --peer-rate and --cached are for a job of several "
                "ranks; say how many: --ranks N"
            )
        return None
    from echobuf.analysis import Cluster

    return Cluster(options.ranks, **given)


def _made(found: Any, target: str) -> tuple[Any, Any]:
    """Return the pair `upstream, step`: the target, or the result of calling it."""
    if callable(found):
        found = call_target(found, target, "`upstream, step`")
    try:
        upstream, step = found if isinstance(found, tuple | list) else ()
    except ValueError:
        raise UsageError(
            f"{target} gives {type(found).__name__!r}, not a pair; it must be a "
            "function that returns `upstream, step`, or that pair"
        ) from None
    return upstream, step


def _check_outputs(options: argparse.Namespace) -> None:
    """Check that all files can be written, before anything is measured."""
    if options.path is not None:
        require("analyze", {"matplotlib": "matplotlib"})
        from echobuf.analysis.report import check_picture_path

        check_picture_path(options.path)
        check_output_file("--plot", options.path)
    if options.json not in (None, _STDOUT):
        check_output_file("--json", Path(options.json))


def _write(report: Report, options: argparse.Namespace) -> None:
    print(report.to_json() if options.json == _STDOUT else report)
    try:
        if options.json not in (None, _STDOUT):
            Path(options.json).write_text(report.to_json() + "\n")
        if options.path is not None:
            report.plot(options.path)
    except OSError as error:
        raise UsageError(f"cannot write: {error}") from None
