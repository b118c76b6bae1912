"""Claim: off-policy learning takes fewer steps of its environment at a higher factor.

The learner and the pendulums of `examples/replay_ratio`: factors 1 to 16 with 61,440
steps, and factor 1 with eight times as many, which gives it the updates of factor 8.

Expected, before the runs of seeds 1 to 5: learning takes about as many updates, however
often a transition is used, so that factor 8 reaches a return of -400 after an eighth to
a quarter of the steps that factor 1 takes, and factor 1 does not reach it in 61,440;
factor 16 is hardly sooner than 8.

The learning rate, 0.003, was chosen among 0.001, 0.003 and 0.01 on seeds 100 and 101:
with factor 1 none of them learned in 60,000 steps. No time is measured; one thread.
"""

from __future__ import annotations

import runpy
import statistics
from pathlib import Path
from typing import Any

import torch

from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from options import make_parser

EXAMPLE = Path(__file__).parents[1] / "examples" / "replay_ratio" / "train.py"
STEPS, TARGET = 61_440, -400.0
EVERY = 3_072  # steps between two evaluations
CONDITIONS = {str(factor): (factor, 1) for factor in (1, 2, 4, 8, 16)}
CONDITIONS["1, 8 times the steps"] = 1, 8


def summary(runs: list[Any]) -> dict[str, Any]:
    """Return medians over seeds, and steps to the target; None where one missed it."""
    last = [run.returns[-1] for run in runs]
    sooner = [
        next((at for at, got in zip(*run[:2], strict=True) if got >= TARGET), None)
        for run in runs
    ]
    known = [at for at in sooner if at is not None]
    return {
        "steps": runs[0].steps[-1],
        "updates": runs[0].updates,
        "return_before": statistics.median(run.returns[0] for run in runs),
        "return_after": statistics.median(last),
        "return_after_range": [min(last), max(last)],
        "reached": len(known),
        "steps_to_target": sooner,
        "median_steps_to_target": (
            statistics.median(known) if len(known) == len(runs) else None
        ),
        "curves": [{"steps": run.steps, "returns": run.returns} for run in runs],
    }


def main(arguments: list[str] | None = None) -> None:
    """Make all runs, print a line for each condition, and write file and picture."""
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    about = environment()
    example = runpy.run_path(str(EXAMPLE))
    runs: dict[str, list[Any]] = {name: [] for name in CONDITIONS}
    for seed in options.seeds:
        for name, (factor, times) in CONDITIONS.items():
            steps = times * options.steps
            count = max(steps // EVERY, 1)
            run = example["train"](factor, steps, seed=seed, evaluations=count)
            runs[name].append(run)
            print(f"factor {name}, seed {seed}: {run.returns[-1]:.0f}", flush=True)
    told = {name: summary(some) for name, some in runs.items()}
    for name, row in told.items():
        print(name, {key: row[key] for key in row if key != "curves"})
    content = {"seeds": options.seeds, "target": TARGET, "conditions": told}
    write_figures("replay_ratio", options.out, content, taken_in=about)
    example["plot"](
        {f"factor {name}": some for name, some in runs.items()},
        options.out / "replay_ratio.png",
    )


if __name__ == "__main__":
    main()
