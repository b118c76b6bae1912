"""Claim: echoing does not make the trained network worse.

Every run has the same number of steps, with echoing or without: three times those that
no echoing needs to the target of `fresh_examples.py`. So a run that echoes e times
reads about 1/e of the fresh examples. The final error is the mean of the last ten
evaluations. No echoing, batch echoing, example echoing after augmentation and before
it, e = 2 ... 16; two workloads. The learning rate of each is tuned by final error on
seeds of its own; then seeds 0 to 4 with that rate. A run that diverges counts as such.
No time is measured.

Each run that is done is a line of `final_quality.jsonl`; the command goes on where that
ends. `--seconds 0` only reports.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

from echobuf.cli.environment import environment
from fresh.exploration import explore, processes, resumed
from fresh.run import EVALUATE_EVERY
from options import add_budget, make_parser
from quality.report import report
from quality.run import (
    BUDGETS,
    DIVERGED,
    LAST,
    FinalRun,
    Outcome,
    QualityLog,
    outcome_of,
)
from quality.search import FinalSearch, compared
from workloads import NAMES, Workload, workload


def settings_of(chosen: Workload) -> str:
    """Return a digest of the settings that errors depend on beside those of a run."""
    told = [chosen.about, EVALUATE_EVERY, LAST, DIVERGED]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]


def text_of(run_log: QualityLog, line: dict[str, object]) -> str:
    """Return what a run has given, in one line."""
    error = run_log.read(line).error
    return "diverged" if error is None else f"{error:.4f}"


def measurer(
    run_log: QualityLog, measure: Callable[[FinalRun], Outcome], deadline: float
) -> Callable[[FinalRun], Outcome]:
    """Return a function that looks outcomes up, or makes them until the deadline."""
    found = resumed(
        run_log,
        lambda run: run_log.written(measure(run)),
        lambda run, line: text_of(run_log, line),
        deadline,
    )
    return lambda run: run_log.read(found(run))


def main(arguments: list[str] | None = None) -> None:
    """Make the runs that are not done yet, print tables and write the result file."""
    parser = make_parser(__doc__)
    add_budget(parser, 7200.0)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (1)")
    parser.add_argument("--workloads", nargs="+", default=NAMES, choices=NAMES)
    options = parser.parse_args(arguments)
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    chosen = {name: workload(name) for name in options.workloads}
    about = environment()
    settings = {name: settings_of(one) for name, one in chosen.items()}
    run_log = QualityLog(out / "final_quality.jsonl", settings)
    with processes(options.jobs) as pool:
        measure = measurer(
            run_log,
            lambda run: pool.submit(outcome_of, run).result(),
            time.monotonic() + options.seconds,
        )
        searches = {
            name: FinalSearch(name, one.rates, BUDGETS[name], measure)
            for name, one in chosen.items()
        }
        finished = explore(searches, compared(), options.jobs)
    steps = {name: BUDGETS[name] for name in chosen}
    report(chosen, steps, finished, len(compared()), out, about)


if __name__ == "__main__":
    main()
