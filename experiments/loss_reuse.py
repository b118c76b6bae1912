"""Steps and fresh examples to a target, where passes leave out what is learnt.

Echoing before augmentation as in `fresh_examples.py`, e = 2, 4, 8: all uses; with
`reuse="loss"`, `thin` 0.5 and for e = 4 0.3 and 0.7, training on
`(loss * info.weight).mean()`; and thinned by chance: as many examples are left out,
whatever their loss, without weights. Two workloads. Learning rates are tuned for each
condition on seeds of its own, by fresh examples; then seeds 0 to 4. Conditions are
compared seed by seed: runs of a seed read the same examples in the same order, and the
weights of their models begin alike.

Each run that is done is a line of `loss_reuse.jsonl`; the command goes on where that
ends. `--seconds 0` only reports.
"""

from __future__ import annotations

import statistics
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from fresh.exploration import explore, processes, resumed
from fresh.rates import rate_of
from fresh.report import SETTINGS, about_workload, outcome_of
from fresh.run import Run
from fresh.run_log import CountLog
from fresh.search import Search, Tuned, median
from fresh_examples import settings_of
from options import add_budget, make_parser
from reuse.compare import Outcome, compared
from reuse.conditions import conditions
from reuse.run import needed
from workloads import NAMES, Workload, workload


class UseLog(CountLog):
    """A log of fresh examples, steps and uses up to the target."""

    outcome = (*CountLog.outcome, "steps", "mean_use")


def text_of(run: Run, outcome: dict[str, Any]) -> str:
    """Return what a run has given, in one line."""
    if outcome["fresh"] is None:
        return f"cut off at {run.most_fresh:,}"
    return f"{outcome['fresh']:,} in {outcome['steps']:,} steps"


def final_outcome(one: Tuned, search: Search, run_log: UseLog) -> Outcome:
    """Return what the runs with a condition's best rate have given, from the log."""
    rows = [run_log.find(run) for run in search.final_runs(one)] if one.fresh else []
    found = [row for row in rows if row is not None]
    uses = [row["mean_use"] for row in found if row["mean_use"] is not None]
    return Outcome(
        tuned=one,
        fresh=[row["fresh"] for row in found],
        steps=[row["steps"] for row in found],
        mean_use=statistics.fmean(uses) if uses else None,
    )


def row_of(one: Outcome) -> dict[str, Any]:
    """Return the part of the result file about a condition."""
    condition = one.condition
    steps = median(one.steps) if one.steps else None
    return {
        **outcome_of(one.tuned),
        "uses": condition.uses,
        "thin": condition.thin,
        "steps": one.steps,
        "median_steps": steps if steps is None or steps < float("inf") else None,
        "mean_use": one.mean_use,
    }


def show(name: str, chosen: Workload, outcomes: list[Outcome]) -> None:
    """Print the table of a workload."""
    print(f"{name}: to {chosen.target:g} {chosen.measure}")
    for one in outcomes:
        if not one.fresh:
            print(f"  {one.condition!s:32} not tried: needs more than no echoing")
            continue
        use = "" if one.mean_use is None else f", mean use {one.mean_use:.2f}"
        print(
            f"  {one.condition!s:32} rate {rate_of(one.tuned.fifths):<6g} fresh "
            f"{spread(one.fresh)}; steps {spread(one.steps)}{use}"
        )
    for pair in compared(outcomes):
        print(f"  {pair['condition']} over {pair['over']}")
        for what in ("fresh", "steps"):
            each = pair[what]
            print(
                f"    {what}: {each['median']:.2f} ({each['min']:.2f} to "
                f"{each['max']:.2f}), mean {each['mean_difference']:,.0f} more "
                f"+- {each['standard_error']:,.0f}, fewer in {each['fewer']} of "
                f"{each['pairs']} seeds"
            )


def spread(counts: list[int | None]) -> str:
    """Return the median, the lowest and the highest count."""
    reached = [count for count in counts if count is not None]
    missed = len(counts) - len(reached)
    text = f"{median(counts):,.0f}"
    if reached:
        text += f" ({min(reached):,} to {max(reached):,})"
    return f"{text}, {missed} missed" if missed else text


def main() -> None:
    """Run the missing runs, print tables and write the result file."""
    parser = make_parser(__doc__)
    add_budget(parser, 3600.0)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (1)")
    parser.add_argument("--workloads", nargs="+", default=NAMES, choices=NAMES)
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    about = environment()
    chosen = {name: workload(name) for name in options.workloads}
    settings = {name: settings_of(one) for name, one in chosen.items()}
    run_log = UseLog(out / "loss_reuse.jsonl", settings)
    wanted = conditions()
    with processes(options.jobs) as pool:
        find = resumed(
            run_log,
            lambda run: pool.submit(needed, run).result(),
            text_of,
            time.monotonic() + options.seconds,
        )
        searches = {
            name: Search(name, one.rates, one.most_fresh, lambda r: find(r)["fresh"])
            for name, one in chosen.items()
        }
        tuned = explore(searches, list(wanted), options.jobs)
    outcomes = {
        name: [final_outcome(one, searches[name], run_log) for one in tuned[name]]
        for name in chosen
    }
    for name, one in chosen.items():
        show(name, one, outcomes[name])
    figures = {
        "versions": {name: version(name) for name in ("torch", "numpy")},
        **SETTINGS,
        "workloads": {
            name: {
                **about_workload(one),
                "conditions_not_done": len(wanted) - len(tuned[name]),
                "conditions": [row_of(each) for each in outcomes[name]],
                "compared": compared(outcomes[name]),
            }
            for name, one in chosen.items()
        },
    }
    write_figures("loss_reuse", out, figures, taken_in=about)


if __name__ == "__main__":
    main()
