"""Tables of what came out."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from policies.tuning import Tuned

__all__ = ["GENERATION", "compared", "show"]

GENERATION = (4, 16)
"""Costs of generating a sample, over one use of it in an update."""

SHUFFLES = 20_000


def median(counts: list[int | None]) -> float | None:
    """Return the median, where a miss is more than all; None if that is a miss."""
    middle = sorted(counts, key=lambda n: float("inf") if n is None else n)
    return middle[len(middle) // 2]


def compared(tuned: list[Tuned]) -> list[dict[str, Any]]:
    """Return each condition beside no replay, by medians.

    Compute is counted in uses of a sample in an update, of which generating takes as
    many as `GENERATION` says. `p` is of a permutation test of the mean rewards.
    """
    without = next(t for t in tuned if t.condition.factor == 1)
    plain, rewards = costs(without), without.figures()["mean_reward"]
    rows = []
    for one in tuned:
        mine = costs(one)
        row: dict[str, Any] = {
            "condition": str(one.condition),
            "reached": sum(each is not None for each in one.reached()),
            "median": mine,
        }
        row["over_no_replay"] = {
            key: mine[key] / plain[key] if mine[key] and plain[key] else None
            for key in mine
        }
        row["p"] = permutation_p(rewards, one.figures()["mean_reward"])
        rows.append(row)
    return rows


def permutation_p(first: list[float], second: list[float]) -> float:
    """Return how often shuffled rewards have means that are as far apart, or more."""
    chance, both = np.random.default_rng(0), np.array([*first, *second])
    order = chance.random((SHUFFLES, len(both))).argsort(1)
    means = both[order[:, : len(first)]].mean(1)
    # The others' mean follows from these, and is farther away the farther they are.
    away = np.abs(means - both.mean())
    return float((away >= abs(np.mean(first) - both.mean()) - 1e-9).mean())


def costs(one: Tuned) -> dict[str, float | None]:
    """Return the median samples, updates and compute to the target."""
    reached = one.reached()
    found = {
        "samples": median([each and each[0] for each in reached]),
        "updates": median([each and each[1] for each in reached]),
    }
    for times in GENERATION:
        found[f"compute_{times}"] = median(
            [each and times * each[0] + one.batch * each[1] for each in reached]
        )
    return found


def show(name: str, tuned: list[Tuned]) -> None:
    """Print the table of a learner."""
    if not tuned:
        return
    print(f"{name}: medians of {len(tuned[0].rows)} seeds, target {tuned[0].target:g}")
    heads = ("", "rate", "reached", "samples", "updates", "of no replay's samples")
    print("  {:<18}{:>8}{:>9}{:>9}{:>9}{:>24}".format(*heads), end="")
    print("".join(f"{f'compute {n}':>12}" for n in GENERATION), end="")
    print(f"{'final':>9}{'entropy':>9}{'age':>7}{'mean reward':>20}{'p':>8}")
    for one, row in zip(tuned, compared(tuned), strict=True):
        mine, over, figures = row["median"], row["over_no_replay"], one.figures()
        print(f"  {one.condition!s:<18}{one.rate:>8g}{row['reached']:>9}", end="")
        print(f"{number(mine['samples'])}{number(mine['updates'])}", end="")
        print(f"{ratio(over['samples']):>24}", end="")
        print("".join(f"{ratio(over[f'compute_{n}']):>12}" for n in GENERATION), end="")
        for key in ("final_reward", "final_entropy"):
            print(f"{statistics.median(figures[key]):>9.3g}", end="")
        print(f"{figures['mean_age']:>7.1f}", end="")
        rewards = figures["mean_reward"]
        error = statistics.stdev(rewards) / len(rewards) ** 0.5
        print(f"{statistics.mean(rewards):>12.3g} +- {error:<4.2g}{row['p']:>8.3g}")


def number(count: float | None) -> str:
    """Return a count in a column, or that the target was missed."""
    return f"{'missed':>9}" if count is None else f"{count:>9,.0f}"


def ratio(value: float | None) -> str:
    """Return a ratio, if there is one."""
    return "" if value is None else f"{value:.2f}"
