"""The options that every experiment has, and where its results go."""

from __future__ import annotations

import argparse
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser with `--out`, to which an experiment adds its options."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="folder of the result file and the picture",
    )
    return parser


def add_budget(parser: argparse.ArgumentParser, seconds: float) -> None:
    """Add `--seconds`, after which no further part begins."""
    parser.add_argument(
        "--seconds",
        type=float,
        default=seconds,
        metavar="N",
        help="time for all of it; what has not begun by then is left out (%(default)g)",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add `--device`, the device of torch's computations."""
    parser.add_argument(
        "--device", default="cpu", help="where torch computes (%(default)s)"
    )
