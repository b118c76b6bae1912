"""Token sequences packed into rows of 2,048: places left empty, and rows a second.

20,000 examples of log-normal lengths, mean 512; what is longer than a row is cut. The
waste, the share of places that hold padding, depends on nothing but the lengths and the
order: it is counted, for several sigmas, beside TRL, a packer in Python with one row and
with 64 rows open, and best fit decreasing over all examples, which is a bound. TRL sorts
by length and sees 1,000 examples at a time; the others see a stream. Rows a second are
for sigma 1.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from echobuf.cli.bench import Candidate, Question, measure
from echobuf.cli.bench.options import make_parser, select
from echobuf.cli.bench.report import figures, print_table, write_figures
from sampling import HERE, RESULTS

TARGET = "peers.pack_rows"
SIGMAS = (0.5, 1.0, 1.5)
GOAL = 0.02

QUESTION = Question(
    "packing",
    "row",
    (
        Candidate("echobuf", f"{TARGET}:Echobuf"),
        Candidate("Python, one open row", f"{TARGET}:Python"),
        Candidate("Python, 64 open rows", f"{TARGET}:Python", {"open_rows": 64}),
        Candidate("TRL, bfd", f"{TARGET}:TRL"),
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
    ours = [waste for waste in counted["echobuf"].values() if isinstance(waste, float)]
    print(f"below {GOAL:.0%}: {'yes' if max(ours) < GOAL else 'no'}")
    outcomes = measure(question, options.rounds)
    print_table(question, outcomes)
    content = {
        "settings": dict(question.settings),
        "waste": counted,
        "waste_goal": GOAL,
        **figures(question, outcomes),
    }
    write_figures("packing", options.out, content)


if __name__ == "__main__":
    main()
