"""Summary of all seeds of over_network.py, for each factor."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from echobuf.cli.demo.settings import Condition
from network_ways import WITHOUT, SeedRuns


def summary(
    found: Sequence[SeedRuns], ways: Sequence[Condition]
) -> dict[str, dict[str, Any]]:
    """Return the figures of each way, by its key, over the seeds that have them.

    A speed-up is over no echoing with the same seed. Medians of fresh examples, steps
    and seconds are of the runs that reached the target.
    """
    return {way.key: _summary(found, way) for way in ways}


def has_figure(total: dict[str, dict[str, Any]]) -> bool:
    """Tell if there is a speed-up of any factor."""
    return any("speedup" in one for one in total.values())


def text(total: dict[str, dict[str, Any]]) -> str:
    """Return a line for each factor."""
    lines = []
    for key, one in total.items():
        if key == WITHOUT.key:
            continue
        missed = f", {one['missed']} missed" if one["missed"] else ""
        if "speedup" not in one:
            lines.append(f"{key}: no figure{missed}")
            continue
        least, median, most = (one["speedup"][k] for k in ("least", "median", "most"))
        lines.append(
            f"{key}: {median:.2f} times sooner ({least:.2f} to {most:.2f}, "
            f"{len(one['speedup']['seeds'])} seeds{missed}); ceiling "
            f"{one['ceiling']:.2f}; {one['fresh']:,.0f} fresh examples"
        )
    return "\n".join(lines)


def _summary(found: Sequence[SeedRuns], way: Condition) -> dict[str, Any]:
    mine = [one for one in found if way.key in one.runs]
    ends = [one.runs[way.key].end for one in mine if one.runs[way.key].reached]
    figures: dict[str, Any] = {
        "e": way.factor,
        "runs": len(mine),
        "missed": len(mine) - len(ends),
    }
    if ends:
        figures["fresh"] = statistics.median(end.fresh for end in ends)
        figures["steps"] = statistics.median(end.steps for end in ends)
        figures["seconds"] = statistics.median(end.seconds for end in ends)
    if way is WITHOUT:
        return figures
    if mine:
        figures["ceiling"] = statistics.median(one.ceiling(way) for one in mine)
    speedups = {one.seed: one.speedup(way) for one in mine}
    known = {seed: value for seed, value in speedups.items() if value is not None}
    if known:
        figures["speedup"] = {
            "seeds": known,
            "least": min(known.values()),
            "median": statistics.median(known.values()),
            "most": max(known.values()),
        }
    return figures
