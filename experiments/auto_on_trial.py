"""`factor="auto"` on trial, against the best fixed factor in hindsight.

Upstreams that are steady, jump, are heavy-tailed, bursty, starved or short, on a
virtual clock that is exact: share of waiting, effective factor beside R, draws until a
jump is followed, use counts and distances. Each fixed factor from 1 to the largest gets
the same times of the same upstream. An echo is worth some part of a fresh example;
compared is the time to the same value in all, and the time for the same draws of the
same fresh examples. Some scenarios run in real time, too, to see whether the virtual
clock tells the truth.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from auto_trial import picture, real
from auto_trial.hindsight import WORTHS, Trial, try_out
from auto_trial.measures import follow, least_wait, ratio, uses
from auto_trial.upstreams import Scenario, Shape, scenarios
from echobuf.cli.bench.report import write_figures
from options import RESULTS

NAME = "auto_on_trial"
ALLOWED = 0.03
UNIT_S = 150e-6


def figures(scenario: Scenario, trials: list[Trial], shape: Shape) -> dict[str, Any]:
    """Return a scenario's figures for the file: by seed, or by worth and seed."""
    fresh = [int(t.auto[0].fresh[-1]) for t in trials]
    least = [
        least_wait(t.upstreams[0], n, shape.max_factor)
        for t, n in zip(trials, fresh, strict=True)
    ]
    counts = np.concatenate([uses(t.auto[0].passes).counts for t in trials])
    return {
        "ratio": [ratio(t.upstreams[0], n) for t, n in zip(trials, fresh, strict=True)],
        "effective_factor": [t.factor for t in trials],
        "waited": [_share(t, "waited") for t in trials],
        "waited_for_the_first_batch": [_share(t, "first_wait") for t in trials],
        "waited_by_any_schedule": [
            wait / float(t.auto[0].times[-1])
            for wait, t in zip(least, trials, strict=True)
        ],
        "upstream_held_back": [_share(t, "held_back") for t in trials],
        "slower": {str(w): [t.slower[w] for t in trials] for w in WORTHS},
        "best_fixed": {str(w): [t.best[w] for t in trials] for w in WORTHS},
        "slower_same_work": [t.same_work for t in trials],
        "uses": np.bincount(counts.astype(int)).tolist(),
        "jumps": len(trials) * len(scenario.jumps),
        "jumps_followed": _jumps(scenario, trials, shape),
    }


def _share(trial: Trial, of: str) -> float:
    return sum(float(getattr(run, of)) for run in trial.auto) / trial.time


def _jumps(
    scenario: Scenario, trials: list[Trial], shape: Shape
) -> list[dict[str, float]]:
    """Return the delay after which each jump was followed."""
    ratios = [(shape.max_factor, 1)[k % 2] for k in range(len(scenario.jumps))]
    return [
        {
            "ratio": jump.ratio,
            "passes": jump.passes,
            "windows_of_draws": jump.draws / shape.window,
        }
        for trial in trials
        for jump in follow(trial.auto[0], scenario.jumps, ratios, shape)
    ]


def print_line(name: str, row: dict[str, Any]) -> None:
    """Format a line of the table: medians, and the worst of the seeds."""
    worst = [100 * max(row["slower"][str(w)]) for w in WORTHS]
    print(
        f"{name:26}{np.median(row['ratio']):7.2f}"
        f"{np.median(row['effective_factor']):7.2f}"
        f"{100 * max(row['waited']):7.1f}"
        f"{100 * max(row['waited_by_any_schedule']):7.1f}"
        + "".join(f"{w:8.1f}" for w in worst)
        + f"{100 * max(row['slower_same_work']):8.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="folder of the results"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--windows", type=int, default=128, help="windows of a trial")
    parser.add_argument("--only", default="", help="scenarios with this in their name")
    parser.add_argument(
        "--virtual", action="store_true", help="leave the runs in real time out"
    )
    chosen = parser.parse_args()
    shape = Shape()
    tried = [s for s in scenarios(shape, chosen.windows) if chosen.only in s.name]
    print(
        f"{'':26}{'R':>7}{'factor':>7}{'wait %':>7}{'any %':>7}"
        + "".join(f"{'w ' + format(w, 'g'):>8}" for w in WORTHS)
        + f"{'work':>8}   (% slower, worst seed)"
    )
    results = {}
    trials = {}
    for scenario in tried:
        trials[scenario.name] = [
            try_out(scenario, shape, seed) for seed in range(chosen.seeds)
        ]
        row = figures(scenario, trials[scenario.name], shape)
        results[scenario.name] = row
        print_line(scenario.name, row)
    misses = [
        f"{name}, an echo worth {worth}: {100 * max(of_seeds):.1f} %"
        for name, row in results.items()
        for worth, of_seeds in row["slower"].items()
        if max(of_seeds) > ALLOWED
    ]
    print("more than 3 % slower: " + ("; ".join(misses) or "none"))
    clocks = {} if chosen.virtual else real.compare(tried, shape, UNIT_S)
    for name, both in clocks.items():
        print(f"{name}: {both}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    picture.draw(trials, shape, chosen.out / f"{NAME}.png")
    write_figures(
        NAME,
        chosen.out,
        {
            "unit": "times in t_downstream of one draw; shares of the whole time",
            "shape": vars(shape),
            "windows": chosen.windows,
            "seeds": chosen.seeds,
            "more_than_3_percent_slower": misses,
            "results": results,
            "real_time": {"unit_s": UNIT_S, "windows": real.WINDOWS, "runs": clocks},
        },
    )


if __name__ == "__main__":
    main()
