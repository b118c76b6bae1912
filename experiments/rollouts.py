"""Rollouts used more than once: reward over generated samples, and over updates.

Two policies learn from rollouts that lie in a window, each of which is used e times at
most, e = 1, 2 and 4: `control`, PPO on Gymnasium's CartPole, where a record is a
transition; and `language`, GRPO on a tiny language model that sorts digits, where a
record is the group of answers to one prompt. With `max_staleness` rollouts expire once
the generator has a policy so much younger. The generator is the slower side: it is a
chunk ahead, and all updates that a chunk allows are done before the next arrives.

Learning rates are tuned for each condition on seeds of its own; then seeds 0 to 14. No
time is measured, all is done in one thread: the same machine gives the same rewards.
The setting is that of arXiv:2604.08706 in small, not its models or its figures.

Each run that is done is a line of `rollouts.jsonl`; the command goes on where that
ends. `--seconds 0` only reports.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from fresh.exploration import OutOfTimeError, processes, resumed
from fresh.run_log import RunLog
from options import add_budget, make_parser
from policies.condition import CONDITIONS, Condition
from policies.report import GENERATION, compared, show
from policies.run import LEARNERS, Trial, make_learner, run
from policies.tuning import SEEDS, SMOOTHING, TUNING_SEEDS, Tuned, mean_reward, tune


class RewardLog(RunLog[Trial]):
    """A log of the rewards of runs."""

    outcome = (
        *("curve", "served", "expired", "mean_age", "largest_age"),
        *("generating_s", "updating_s"),
    )


def settings_of(name: str) -> dict[str, Any]:
    """Return the settings of a learner."""
    learner = make_learner(name)
    keys = ("budget", "chunk", "batch", "evaluate_every", "target")
    return {key: getattr(learner, key) for key in keys}


def short(settings: dict[str, Any]) -> str:
    """Return settings as a short text."""
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:12]


def explore(name: str, found: Callable[[Trial], dict[str, Any]]) -> list[Tuned]:
    """Tune the conditions one after the other, until the time is over."""
    best: dict[Condition, Tuned] = {}
    for condition in CONDITIONS:
        near = best.get(condition.near) if condition.near else None
        try:
            best[condition] = tune(name, condition, near and near.halves, found)
        except OutOfTimeError:
            break
    return list(best.values())


def main(arguments: list[str] | None = None) -> None:
    """Run the missing runs, print tables, and write the result file and a picture."""
    from policies.picture import draw

    parser = make_parser(__doc__)
    add_budget(parser, 3600.0)
    parser.add_argument("--learners", nargs="+", default=LEARNERS, choices=LEARNERS)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    about = environment()
    settings = {name: settings_of(name) for name in options.learners}
    known = {name: short(one) for name, one in settings.items()}
    run_log = RewardLog(options.out / "rollouts.jsonl", known)
    with processes(1) as pool:
        found = resumed(
            run_log,
            lambda trial: pool.submit(run, trial).result(),
            lambda trial, row: f"mean reward {mean_reward(row):.3g}",
            time.monotonic() + options.seconds,
        )
        tuned = {name: explore(name, found) for name in options.learners}
    for name, conditions in tuned.items():
        show(name, conditions)
    figures = {
        "versions": {name: version(name) for name in ("torch", "numpy", "gymnasium")},
        "seeds": list(SEEDS),
        "tuning_seeds": list(TUNING_SEEDS),
        "mean_of_evaluations": SMOOTHING,
        "generation_over_use": list(GENERATION),
        "learners": {
            name: {
                **settings[name],
                "conditions_not_done": len(CONDITIONS) - len(tuned[name]),
                "conditions": [one.figures() for one in tuned[name]],
                "compared": compared(tuned[name]) if tuned[name] else [],
            }
            for name in options.learners
        },
    }
    write_figures("rollouts", options.out, figures, taken_in=about)
    if any(tuned.values()):
        drawn = {name: conditions for name, conditions in tuned.items() if conditions}
        draw(drawn, options.out / "rollouts.png")


if __name__ == "__main__":
    main()
