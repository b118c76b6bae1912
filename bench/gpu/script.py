"""The command line that every GPU benchmark has."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ask import Question, ask
from figures import write
from place import NO_GPU, open_place

RESULTS = Path(__file__).resolve().parents[1] / "results" / "gpu"


def main(
    description: str | None,
    questions: Sequence[Question],
    arguments: Sequence[str] | None = None,
) -> int:
    """Ask the questions; return 1 if a candidate other than a peer failed."""
    parser = argparse.ArgumentParser(
        description=description,
        epilog=f"Exits with {NO_GPU} where there is no GPU.",
    )
    parser.add_argument("--rounds", type=int, help="rounds measured, at most")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="folder of the results"
    )
    parser.add_argument(
        "--simulated",
        action="store_true",
        help="try the script on the simulated driver, with tiny sizes and without "
        "peers: its figures mean nothing",
    )
    options = parser.parse_args(arguments)
    failed = False
    with open_place(simulated=options.simulated) as place:
        for question in questions:
            answers = ask(question, place, options.rounds)
            write(question, place, answers, options.out)
            failed |= any(a.failed and not a.candidate.peer for a in answers.values())
    return int(failed)
