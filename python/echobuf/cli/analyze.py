"""`echobuf analyze`: measure whether training waits for its input, and what helps."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echobuf.cli import UsageError, require
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
from echobuf.cli.interrupt import exit_on_interrupt
from echobuf.cli.output import check_output_file
from echobuf.repeats import LIFETIME, Repeats

if TYPE_CHECKING:
    from echobuf.analysis import Cluster, Report
    from echobuf.errors import EchobufError

__all__ = ["configure", "run"]

_STDOUT = "-"
_UNDECIDED = 3  # the exit code
_OPTIONS = {
    "seconds": "`--seconds`",
    "timeout": "`--timeout`",
    "batch_size": "`--batch-size`",
    "window": "`--window`",
    "max_factor": "`--max-factor`",
    "length": "`--length`",
    "ranks": "`--ranks`",
    "storage_rate": "`--storage-rate`",
    "peer_rate": "`--peer-rate`",
    "shares": "`--cached`",
    "epochs": "`--epochs`",
    "lifetime": "`--repeat-lifetime`",
    "path": "`--plot`",
}


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
    _add_settings(parser)
    _add_ranks(parser)
    parser.add_argument(
        "--json",
        metavar="PATH",
        help="write the report as JSON, to a file, or to '-' in place of the table",
    )
    parser.add_argument(
        "--plot",
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


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--batch-size",
        type=whole_number,
        metavar="N",
        help="examples that the step takes (default: those of upstream's batches)",
    )
    parser.add_argument(
        "--window",
        type=whole_number,
        metavar="N",
        help="examples in the window to predict for (default: 32 batches)",
    )
    parser.add_argument(
        "--max-factor",
        type=whole_number,
        metavar="N",
        help="largest factor of 'auto' (default: 8, or that of an EchoLoader)",
    )
    parser.add_argument(
        "--length",
        type=whole_number,
        metavar="N",
        help="examples in an epoch, where upstream does not say",
    )
    parser.add_argument(
        "--epochs",
        type=number,
        default=1.0,
        metavar="N",
        help="epochs of the training, to price echoes with (default: %(default)g)",
    )
    parser.add_argument(
        "--repeat-lifetime",
        type=number,
        default=LIFETIME,
        metavar="N",
        help="repeats after which a further one is worth 1/e of the first (default: "
        "15.39, fitted to language models)",
    )


def _add_ranks(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a job of several ranks")
    group.add_argument(
        "--ranks",
        type=whole_number,
        metavar="N",
        help="predict epochs on so many ranks, too, with caches and without",
    )
    group.add_argument(
        "--storage-rate",
        type=rate,
        metavar="X",
        help="examples a second that storage gives to all ranks together (default: as "
        "many as it gave to this process)",
    )
    group.add_argument(
        "--peer-rate",
        type=rate,
        metavar="X",
        help="examples a second that ranks fetch from each other's caches, all "
        "together (default: as if that cost nothing)",
    )
    group.add_argument(
        "--cached",
        type=share,
        nargs="+",
        metavar="SHARE",
        help="shares of the data set that the caches of all ranks hold together "
        "(default: 0.25 0.5 0.75 1)",
    )


def run(options: argparse.Namespace) -> int:
    """Analyze the target, print the report, and write the files of the options.

    Returns:
        0; with `--check`, 1 if there is an input stall, 3 if the timings do not suffice
        to tell.

    Raises:
        UsageError: the target cannot be analyzed, or a file cannot be written.
        CommandError: a package is missing.
    """
    from echobuf.errors import EchobufError

    try:
        _check_outputs(options)
        with exit_on_interrupt():  # imports of frameworks take seconds
            found = load_target(options.target)
        upstream, step = _made(found, options.target)
        report = _analyze(upstream, step, options)
        _write(report, options)
    except EchobufError as error:
        raise UsageError(_message(error)) from error
    return _code(report) if options.check else 0


_BATCHED = (  # arguments in messages, and the options for them
    ("with batched=True", "without --batch-size"),
    ("Pass batched=False", "Give --batch-size"),
    ("batched=True", "leave --batch-size out"),
)


def _message(error: EchobufError) -> str:
    """Return the message of an error, with options in place of arguments."""
    said = with_option_names(error, _OPTIONS)
    for argument, option in _BATCHED:
        said = said.replace(argument, option)
    return said


def _code(report: Report) -> int:
    if report.pays is None:
        return _UNDECIDED
    return 1 if report.input_stall else 0


def _analyze(upstream: Any, step: Any, options: argparse.Namespace) -> Report:
    from echobuf.analysis import analyze

    return analyze(
        upstream,
        step,
        batch_size=options.batch_size,
        window=options.window,
        max_factor=options.max_factor,
        length=options.length,
        seconds=options.seconds,
        timeout=options.timeout,
        progress=_progress(),
        cluster=_cluster(options),
        repeats=Repeats(options.epochs, options.repeat_lifetime),
    )


def _cluster(options: argparse.Namespace) -> Cluster | None:
    given = {
        "storage_rate": options.storage_rate,
        "peer_rate": options.peer_rate,
        "shares": options.cached,
    }
    given = {name: value for name, value in given.items() if value is not None}
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


def _progress() -> Callable[[str], None] | None:
    if not sys.stderr.isatty():
        return None
    return lambda name: print(f"measuring: {name}", file=sys.stderr, flush=True)


# ---- output files


def _check_outputs(options: argparse.Namespace) -> None:
    """Check that all files can be written, before anything is measured."""
    if options.plot is not None:
        require("analyze", {"matplotlib": "matplotlib"})
        from echobuf.analysis.report import check_picture_path

        check_picture_path(options.plot)
        check_output_file("--plot", options.plot)
    if options.json is not None and options.json != _STDOUT:
        check_output_file("--json", Path(options.json))


def _write(report: Report, options: argparse.Namespace) -> None:
    if options.json == _STDOUT:
        print(report.to_json())
    else:
        print(report)
    try:
        if options.json not in (None, _STDOUT):
            Path(options.json).write_text(report.to_json() + "\n")
        if options.plot is not None:
            report.plot(options.plot)
    except OSError as error:
        raise UsageError(f"cannot write: {error}") from None
