"""Fresh examples to a target, where every second echo is augmented the opposite way.

Echoing before augmentation as in `fresh_examples.py`, e = 2 ... 16: with independent
draws, and with `alternate=True`. Three workloads: `images`, where each second
distortion turns, shifts and scales the other way; `text`, where each second window lies
as far from the other end of the record; and `mirrored`, the images mirrored at random,
too, where the mirroring alternates and the distortion does not. Learning rates are
tuned for each condition on seeds of its own; then seeds 0 to 4. Where the two rates of
a pair differ, both kinds run with each of them.

Each run that is done is a line of `opposite_echoes.jsonl`; the command goes on where
that ends. `--seconds 0` only reports.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from fresh.conditions import FACTORS, Condition, opposite_conditions
from fresh.exploration import OutOfTimeError, explore, processes
from fresh.rates import SEEDS, rate_of
from fresh.report import SETTINGS, about_workload, outcome_of
from fresh.run import Run, fresh_needed
from fresh.run_log import CountLog
from fresh.search import Search, Tuned, median
from fresh_examples import counter, settings_of
from options import add_budget, make_parser
from workloads import Workload, workload

NAMES = ("images", "text", "mirrored")


def compared(tuned: list[Tuned]) -> list[dict[str, Any]]:
    """Return the opposite draws of each factor beside independent ones."""
    by_condition: dict[Condition, Tuned] = {one.condition: one for one in tuned}
    pairs = []
    for one in tuned:
        if one.condition.kind != "opposite":
            continue
        factor = one.condition.factor
        other = by_condition.get(Condition("before", factor))
        if other is None or not all(map(math.isfinite, (one.median, other.median))):
            continue
        fewer = sum(
            a is not None and (b is None or a < b)
            for a, b in zip(one.fresh, other.fresh, strict=True)
        )
        pairs.append(
            {
                "factor": factor,
                "independent": other.median,
                "opposite": one.median,
                "ratio": one.median / other.median,
                "seeds_with_fewer": fewer,
            }
        )
    return pairs


def with_each_rate(
    name: str, chosen: Workload, tuned: list[Tuned], count: Callable[[Run], int | None]
) -> list[dict[str, Any]]:
    """Return both kinds with the rates that were tuned for one of them."""
    by_condition = {one.condition: one for one in tuned}
    found = []
    for factor in FACTORS:
        conditions = Condition("before", factor), Condition("opposite", factor)
        if not all(condition in by_condition for condition in conditions):
            continue
        rates = sorted({by_condition[condition].fifths for condition in conditions})
        for rate in map(rate_of, rates):
            medians = []
            for condition in conditions:
                runs = [
                    Run(name, condition, rate, seed, most_fresh=chosen.most_fresh)
                    for seed in SEEDS
                ]
                try:
                    medians.append(median(map(count, runs)))
                except OutOfTimeError:
                    break
            if len(medians) == 2 and all(map(math.isfinite, medians)):
                row = {"independent": medians[0], "opposite": medians[1]}
                ratio = medians[1] / medians[0]
                found.append({"factor": factor, "rate": rate, **row, "ratio": ratio})
    return found


def spread(counts: list[int | None]) -> str:
    """Return the lowest and the highest count."""
    reached = [count for count in counts if count is not None]
    missed = len(counts) - len(reached)
    text = f"{min(reached):,} to {max(reached):,}" if reached else "none"
    return f"{text}, {missed} missed" if missed else text


def show(
    name: str, chosen: Workload, tuned: list[Tuned], rated: list[dict[str, Any]]
) -> None:
    """Print the table of a workload."""
    print(f"{name}: fresh examples to {chosen.target:g} {chosen.measure}")
    for one in tuned:
        print(
            f"  {one.condition.kind:>10} e = {one.condition.factor:<2} rate "
            f"{rate_of(one.fifths):<6g} median {one.median:>8,.0f}, {spread(one.fresh)}"
        )
    for pair in compared(tuned):
        print(
            f"  e = {pair['factor']:<2} opposite over independent {pair['ratio']:.2f}, "
            f"fewer in {pair['seeds_with_fewer']} of {len(SEEDS)} seeds"
        )
    for pair in rated:
        print(f"  e = {pair['factor']:<2} rate {pair['rate']:g}: {pair['ratio']:.2f}")


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
    run_log = CountLog(out / "opposite_echoes.jsonl", settings)
    wanted = opposite_conditions()
    with processes(options.jobs) as pool:
        count = counter(
            run_log,
            lambda run: pool.submit(fresh_needed, run).result(),
            time.monotonic() + options.seconds,
        )
        searches = {
            name: Search(name, one.rates, one.most_fresh, count)
            for name, one in chosen.items()
        }
        tuned = explore(searches, wanted, options.jobs)
        rated = {
            name: with_each_rate(name, one, tuned[name], count)
            for name, one in chosen.items()
        }
    for name, one in chosen.items():
        show(name, one, tuned[name], rated[name])
    figures = {
        "versions": {name: version(name) for name in ("torch", "numpy")},
        **SETTINGS,
        "workloads": {
            name: {
                **about_workload(one),
                "conditions_not_done": len(wanted) - len(tuned[name]),
                "conditions": [outcome_of(each) for each in tuned[name]],
                "compared": compared(tuned[name]),
                "with_each_rate": rated[name],
            }
            for name, one in chosen.items()
        },
    }
    write_figures("opposite_echoes", out, figures, taken_in=about)


if __name__ == "__main__":
    main()
