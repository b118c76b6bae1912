"""How many fresh examples training needs to its target, by kind of echoing.

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
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from echobuf.cli.bench.environment import environment
from fresh import run as running
from fresh.conditions import Condition, conditions
from fresh.ledger import Ledger
from fresh.report import report
from fresh.run import Run, fresh_needed
from fresh.search import Search, Tuned
from options import add_budget, add_device, make_parser
from workloads import NAMES, Workload, workload


class OutOfTimeError(Exception):
    """The budget is used up; what is not done yet is not begun."""


def settings_of(chosen: Workload) -> str:
    """What the counts depend on beside what a run is given, in short."""
    told = [chosen.about, chosen.target, running.EVALUATE_EVERY, running.SMOOTHING]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]


def counter(
    ledger: Ledger, count: Callable[[Run], int | None], deadline: float
) -> Callable[[Run], int | None]:
    """Counts that are looked up, or made until the deadline."""

    def found(run: Run) -> int | None:
        row = ledger.find(run)
        if row is not None:
            return row["fresh"]
        if time.monotonic() >= deadline:
            raise OutOfTimeError
        fresh = count(run)
        ledger.add(run, fresh)
        print(
            f"{run.workload}: {run.condition}, rate {run.rate:g}, seed {run.seed}: "
            + (f"cut off at {run.most_fresh:,}" if fresh is None else f"{fresh:,}"),
            flush=True,
        )
        return fresh

    return found


def explore(
    searches: dict[str, Search], wanted: list[Condition], jobs: int
) -> dict[str, list[Tuned]]:
    """Tunes conditions, of all workloads in turn; what is not done is left out."""
    asked = [(name, condition) for condition in wanted for name in searches]
    tuned: dict[str, list[Tuned]] = {name: [] for name in searches}
    with ThreadPoolExecutor(jobs) as pool:
        futures = [
            (name, pool.submit(searches[name].of, condition))
            for name, condition in asked
        ]
        for name, future in futures:
            try:
                tuned[name].append(future.result())
            except OutOfTimeError:
                continue
    return tuned


def main() -> None:
    """Runs what is not done yet, prints tables and writes the result file."""
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
    ledger = Ledger(out / "fresh_examples.jsonl", settings)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=spawn) as pool:
        # The pool starts its processes with the first run that is not done.
        count = counter(
            ledger,
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
