"""Tables, result file and picture of final errors."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from echobuf.cli.bench.report import write_figures
from fresh.rates import SEEDS, TUNING_SEEDS, rate_of
from fresh.run import EVALUATE_EVERY
from quality.compare import QUANTILE, Difference, difference, plain_of
from quality.picture import draw
from quality.run import DIVERGED, LAST, NEEDED, TIMES
from quality.search import Finished
from workloads import Workload

__all__ = ["report"]


def report(
    workloads: dict[str, Workload],
    steps: dict[str, int],
    finished: dict[str, list[Finished]],
    asked: int,
    out: Path,
    about: dict[str, Any],
) -> None:
    """Print a table for each workload; write `final_quality.json` and a picture.

    Args:
        workloads: by name.
        steps: of every run, by workload.
        finished: conditions that are done, by workload.
        asked: conditions that there are.
        out: the folder to write to.
        about: the environment.
    """
    for name, workload in workloads.items():
        title = f"{name}: {workload.measure} after {steps[name]:,} steps"
        Console(width=112).print(_table(title, finished[name]))
        if left := asked - len(finished[name]):
            print(f"{name}: {left} of {asked} conditions are not done")
        for one in finished[name]:
            if one.at_edge:
                print(f"{name}: the rate of {one.condition} lies at the edge of those")
    figures = {
        "evaluated_every_steps": EVALUATE_EVERY,
        "final_error": f"mean of the last {LAST} evaluations",
        "best_error": f"least mean of {LAST} evaluations in a row",
        "budget": f"{TIMES} times the steps of no echoing to the target",
        "diverged_from": DIVERGED,
        "standard_errors_to_differ": QUANTILE,
        "seeds": list(SEEDS),
        "tuning_seeds": list(TUNING_SEEDS),
        "workloads": {
            name: {
                "measure": workload.measure,
                **workload.about,
                "steps": steps[name],
                "fresh_to_target_without_echoing": NEEDED[name],
                "conditions_not_done": asked - len(finished[name]),
                "conditions": [_row(one, finished[name]) for one in finished[name]],
            }
            for name, workload in workloads.items()
        },
    }
    write_figures("final_quality", out, figures, taken_in=about)
    print(f"written: {draw(workloads, finished, out / 'final_quality.png')}")


def _row(one: Finished, among: Sequence[Finished]) -> dict[str, Any]:
    condition = one.condition
    errors = [outcome.error for outcome in one.outcomes]
    best = [outcome.best for outcome in one.outcomes]
    return {
        "echoing": condition.kind,
        "factor": condition.factor,
        "window_examples": condition.window,
        "batch_size": condition.batch_size,
        "learning_rate": rate_of(one.fifths),
        "rate_at_edge": one.at_edge,
        "tuning": {
            f"{rate_of(k):g}": [outcome.error for outcome in v]
            for k, v in sorted(one.tried.items())
        },
        "fresh": [outcome.fresh for outcome in one.outcomes],
        "steps_made": [outcome.steps for outcome in one.outcomes],
        "diverged": one.diverged,
        "final_error": {"seeds": errors, **_spread(errors)},
        "best_error": {"seeds": best, **_spread(best)},
        "to_no_echoing": _difference(one, among),
    }


def _spread(errors: Sequence[float | None]) -> dict[str, float | None]:
    """Return mean, least and most; None each where a run diverged."""
    values = [error for error in errors if error is not None]
    if len(values) < len(errors):
        return dict.fromkeys(("mean", "min", "max"))
    return {"mean": statistics.mean(values), "min": min(values), "max": max(values)}


def _difference(one: Finished, among: Sequence[Finished]) -> dict[str, Any] | None:
    found = _found(one, among)
    if found is None:
        return None
    derived = {"mean": found.mean, "standard_error": found.standard_error}
    return {**asdict(found), **derived}


def _found(one: Finished, among: Sequence[Finished]) -> Difference | None:
    plain = plain_of(among)
    if plain is None or plain is one:
        return None
    return difference(one, plain)


def _table(title: str, finished: Sequence[Finished]) -> Table:
    table = Table(title=title)
    for heading in ("echoing", "e", "rate", "fresh", "mean", "min .. max", "best"):
        table.add_column(heading, justify="left" if heading == "echoing" else "right")
    table.add_column("to none, standard error", justify="right")
    table.add_column("")
    for one in finished:
        found = _found(one, finished)
        errors = _spread([outcome.error for outcome in one.outcomes])
        best = _spread([outcome.best for outcome in one.outcomes])["mean"]
        ends = errors["min"], errors["max"]
        table.add_row(
            one.condition.kind,
            str(one.condition.factor),
            f"{rate_of(one.fifths):g}",
            f"{one.outcomes[0].fresh:,}",
            f"{one.diverged} diverged" if one.diverged else f"{errors['mean']:.4f}",
            "" if one.diverged else " .. ".join(f"{end:.4f}" for end in ends),
            "" if best is None else f"{best:.4f}",
            _text(found),
            "" if found is None else found.verdict,
        )
    return table


def _text(found: Difference | None) -> str:
    if found is None or found.mean is None:
        return ""
    return f"{found.mean:+.4f}, {found.standard_error:.4f}"
