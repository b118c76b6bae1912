"""Token sequences packed into rows of 2,048: empty places, and rows a second.

20,000 examples of log-normal lengths with a mean of 512; longer ones are cut to a row.
The waste is the share of places that hold padding. It follows from the lengths and
their order alone, and is counted for several sigmas: beside TRL, packers in Python with
one open row and with 64, and best fit decreasing of all examples, which is the bound.
TRL sorts 1,000 examples at a time by length; echobuf and the packers in Python read a
stream, which echobuf also shuffles. Rows a second are those of sigma 1.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from echobuf.cli.bench import Candidate, Question, measure
from echobuf.cli.bench.report import figures, print_table, write_figures
from running import make_parser, select
from sampling import HERE, RESULTS

TARGET = "peers.pack_rows"
SIGMAS = (0.5, 0.75, 1.0, 1.5)
GOAL = 0.02

QUESTION = Question(
    "packing",
    "row",
    (
        Candidate("echobuf", f"{TARGET}:Echobuf"),
        Candidate("Python, one open row", f"{TARGET}:Python"),
        Candidate("Python, 64 open rows", f"{TARGET}:Python", {"open_rows": 64}),
        Candidate("TRL, bfd", f"{TARGET}:TRL"),
        Candidate("TRL, wrapped (cuts examples)", f"{TARGET}:TRLWrapped"),
    ),
    reference="echobuf",
    settings={
        "examples": 20_000,
        "mean": 512,
        "sigma": 1.0,
        "pack_to": 2048,
        "rows": 8,
        "window": 2048,
        "limit_s": 0.0,
    },
    path=(HERE,),
)
BOUND = Candidate("offline, best fit decreasing", f"{TARGET}:Offline")


def wastes(question: Question) -> dict[str, dict[str, float | str]]:
    """Count the waste of each candidate, for each sigma."""
    counted: dict[str, dict[str, float | str]] = {}
    for candidate in (*question.candidates, BOUND):
        module, _, name = candidate.target.partition(":")
        row = counted[candidate.name] = {}
        for sigma in SIGMAS:
            settings = {**question.settings, **candidate.settings, "sigma": sigma}
            try:
                made: Any = getattr(importlib.import_module(module), name)(settings)
            except ImportError as error:
                row[str(sigma)] = f"not there: {error}"
                continue
            row[str(sigma)] = made.waste()[0]
    return counted


def print_wastes(counted: dict[str, dict[str, float | str]]) -> None:
    """Print a table, in per cent."""
    print(f"{'waste in %, sigma':33}" + "".join(f"{sigma:>10}" for sigma in SIGMAS))
    for name, row in counted.items():
        cells = (
            f"{100 * waste:>10.2f}" if isinstance(waste, float) else f"{'-':>10}"
            for waste in row.values()
        )
        print(f"{name:33}" + "".join(cells))


def main() -> None:
    options = make_parser(__doc__, RESULTS).parse_args()
    question = select(QUESTION, options)
    sys.path.insert(0, str(HERE))
    counted = wastes(question)
    print_wastes(counted)
    for sigma, waste in counted["echobuf"].items():
        met = isinstance(waste, float) and waste < GOAL
        print(f"sigma {sigma}: below {GOAL:.0%}: {'yes' if met else 'no'}")
    outcomes = measure(question, options.rounds)
    print_table(question, outcomes)
    content = {
        "settings": dict(question.settings),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "waste": counted,
        "waste_goal": GOAL,
        **figures(question, outcomes),
    }
    write_figures("packing", options.out, content)


if __name__ == "__main__":
    main()
