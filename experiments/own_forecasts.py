"""Claim: a forecaster that learns from its own forecasts makes better long ones.

The network and the field of `examples/own_forecasts`: fresh examples alone, and 1 of 4
and 1 of 8 fresh, beside forecasts that were put back; as many updates, and as many
examples, in each.

Expected, before anything ran, of Lorenz-96: an error after 20 steps that is a tenth
lower, since errors that one step makes are then inputs of another, and an error after
one step that is a little higher. It brought nothing there (docs/experiments.md), and
more on this field. Seed 0, which the settings were tried on, is not among those of the
runs. No time is measured; one thread.
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

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_forecasts" / "train.py"
SHARES = (1, 4, 8)  # 1 of so many examples is fresh
TOLD = (1, 5, 20, 40, 60)  # steps of a forecast


def summary(outcomes: list[Any]) -> dict[str, Any]:
    """Return errors over seeds: median, lowest and highest after some steps."""
    told: dict[str, Any] = {}
    for at in TOLD:
        errors = [outcome.errors[at - 1] for outcome in outcomes]
        told[f"error_at_{at}"] = {
            "median": statistics.median(errors),
            "range": [min(errors), max(errors)],
        }
    return told


def main(arguments: list[str] | None = None) -> None:
    """Train with each share and seed, print errors, and write file and picture."""
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--updates", type=int, default=1000)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    about = environment()
    example = runpy.run_path(str(EXAMPLE))
    outcomes: dict[int, list[Any]] = {share: [] for share in SHARES}
    for seed in options.seeds:
        for share, some in outcomes.items():
            some.append(example["train"](share, options.updates, seed=seed))
            error = some[-1].errors[-1]
            print(f"1 of {share} fresh, seed {seed}: {error:.3f}", flush=True)
    held_out = example["Flow"]("cpu").runs(example["HELD_OUT"], 10_000)
    content = {
        "seeds": options.seeds,
        "updates": options.updates,
        "standard_deviation_of_the_field": {
            str(at): float(held_out[:, at].square().mean().sqrt()) for at in TOLD
        },
        "one_of": {str(share): summary(some) for share, some in outcomes.items()},
        "errors": {
            str(share): [outcome.errors for outcome in some]
            for share, some in outcomes.items()
        },
    }
    for share, row in content["one_of"].items():
        print(share, row)
    write_figures("own_forecasts", options.out, content, taken_in=about)
    example["plot"](outcomes, options.out / "own_forecasts.png")


if __name__ == "__main__":
    main()
