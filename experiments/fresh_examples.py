"""Fresh examples that training needs to its target, by kind of echoing.

No echoing, batch echoing, example echoing after augmentation and before it (each echo
is augmented anew), e = 2 ... 16, and for e = 4 other windows and batch sizes; two
workloads. For each the learning rate is tuned on seeds of its own; then seeds 0 to 4
with that rate. No time is measured, and nothing is read ahead: the counts are the same
on every machine with the same torch, as far as its kernels are.

Each run that is done is a line of `fresh_examples.jsonl`; the command goes on where
that ends. `--seconds 0` only reports.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from echobuf.cli.environment import environment
from fresh import run as running
from fresh.conditions import conditions
from fresh.exploration import explore, processes, resumed
from fresh.report import report
from fresh.run import Run, fresh_needed
from fresh.run_log import CountLog
from fresh.search import Search
from options import add_budget, add_device, make_parser
from workloads import NAMES, Workload, workload


def settings_of(chosen: Workload) -> str:
    """Return a short text of the settings that counts depend on beside a run's."""
    told = [chosen.about, chosen.target, running.EVALUATE_EVERY, running.SMOOTHING]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]


def text_of(run: Run, outcome: dict[str, Any]) -> str:
    """Return what a run has given, in one line."""
    fresh = outcome["fresh"]
    return f"cut off at {run.most_fresh:,}" if fresh is None else f"{fresh:,}"


def counter(
    run_log: CountLog, count: Callable[[Run], int | None], deadline: float
) -> Callable[[Run], int | None]:
    """Return a function that looks counts up, or makes them until the deadline."""
    found = resumed(run_log, lambda run: {"fresh": count(run)}, text_of, deadline)
    return lambda run: found(run)["fresh"]


def main() -> None:
    """Run the missing runs, print tables and write the result file."""
    parser = make_parser(__doc__)
    add_budget(parser, 3600.0)
    add_device(parser)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (1)")
    parser.add_argument("--width", type=int, default=1, help="of the models (1)")
    parser.add_argument("--workloads", nargs="+", default=NAMES, choices=NAMES)
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    about = environment()
    chosen = {name: workload(name) for name in options.workloads}
    settings = {name: settings_of(one) for name, one in chosen.items()}
    run_log = CountLog(out / "fresh_examples.jsonl", settings)
    with processes(options.jobs) as pool:
        count = counter(
            run_log,
            lambda run: pool.submit(fresh_needed, run).result(),
            time.monotonic() + options.seconds,
        )
        searches = {
            name: Search(
                name, one.rates, one.most_fresh, count, options.device, options.width
            )
            for name, one in chosen.items()
        }
        tuned = explore(searches, conditions(), options.jobs)
    about |= {"device": options.device, "width": options.width}
    report(chosen, tuned, len(conditions()), out, about)


if __name__ == "__main__":
    main()
