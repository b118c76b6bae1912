"""The options that every experiment has, and where its results go."""

from __future__ import annotations

import argparse
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with `--out`; what else an experiment wants, it adds."""
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
    """Adds `--seconds`: what has not begun by then is left out, and named."""
    parser.add_argument(
        "--seconds",
        type=float,
        default=seconds,
        metavar="N",
        help="time for all of it; what has not begun by then is left out (%(default)g)",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Adds `--device`: where torch computes."""
    parser.add_argument(
        "--device", default="cpu", help="where torch computes (%(default)s)"
    )
