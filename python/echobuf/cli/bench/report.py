"""Table and result file of a benchmark."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from echobuf.cli.bench.questions import Question
from echobuf.cli.bench.rounds import Outcome
from echobuf.cli.environment import environment
from echobuf.cli.output import line_width, wrapped

_WIDTH = 100
_DROPPED = ("faults", "peak MB", "cores", "rate/s", "min .. max")  # in that order
_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def figures(question: Question, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return the unit, the reference, and the figures of each candidate, for JSON."""
    return {
        "unit": f"seconds for one {question.unit}",
        "reference": question.reference,
        "results": {name: _row(question, each) for name, each in outcomes.items()},
    }


def _row(question: Question, outcome: Outcome) -> dict[str, Any]:
    """Return the figures of a candidate, or the reason for having none."""
    if outcome.failed_at:
        return {"failed_at": outcome.failed_at, "reason": outcome.reason}
    return {
        "median_s": outcome.median_s,
        "min_s": min(outcome.seconds),
        "max_s": max(outcome.seconds),
        "rate_per_s": 1 / outcome.median_s,
        "reference": question.reference_of(outcome.candidate),
        "speed_over_reference": outcome.ratio and outcome.ratio.median,
        "ratio_range": outcome.ratio and outcome.ratio.range,
        "cpu_s": statistics.median(r["cpu_s"] / r["units"] for r in outcome.rounds),
        "minor_faults": _median(outcome, "minor_faults"),
        "major_faults": _median(outcome, "major_faults"),
        "peak_bytes": max(row["peak_bytes"] for row in outcome.rounds),
        "units_per_round": _median(outcome, "units"),
        "rounds_s": outcome.seconds,
        "settings": question.settings_of(outcome.candidate),
        **outcome.about,
    }


def _median(outcome: Outcome, key: str) -> float:
    return float(statistics.median(row[key] for row in outcome.rounds))


def print_table(question: Question, outcomes: Mapping[str, Outcome]) -> None:
    """Print a line for each candidate, as wide as the terminal, or 100 characters.

    A narrow terminal shows fewer columns.
    """
    rows = [_cells(question, each) for each in outcomes.values() if not each.failed_at]
    widths = {
        head: max([len(head), *(len(row[head]) for row in rows)])
        for head in (rows[0] if rows else [""])
    }
    shown = _fitting(widths, min(_WIDTH, line_width() or _WIDTH))
    title = f"{question.name}: time for one {question.unit}, speed over the reference"
    print(f"\n{wrapped(title)}")
    for row in [{head: head for head in shown}, *rows]:
        cells = [f"{row[head]:>{widths[head]}}" for head in shown[1:]]
        print(" ".join([f"{row['']:<{widths['']}}", *cells]).rstrip())
    if len(shown) < len(widths):
        print(wrapped("(more columns in a wider terminal, and in the JSON file)"))
    for name, other in outcomes.items():
        if other.failed_at:
            reason = " ".join(f"{other.failed_at}: {other.reason}".split())
            print(wrapped(f"{name}: no figure ({reason})", indent=2, most=_WIDTH))


def _fitting(widths: Mapping[str, int], width: int) -> Sequence[str]:
    """Return the heads of columns that fit; names, times and speed always stay."""
    heads = list(widths)
    for dropped in _DROPPED:
        if sum(widths[head] + 1 for head in heads) - 1 <= width:
            break
        heads.remove(dropped)
    return heads


def _cells(question: Question, outcome: Outcome) -> dict[str, str]:
    median_s = outcome.median_s
    scale, suffix = next((s for s in _SCALES if median_s >= s[0]), _SCALES[-1])
    low, high = min(outcome.seconds) / scale, max(outcome.seconds) / scale
    faults = _median(outcome, "minor_faults") + _median(outcome, "major_faults")
    peak = max(row["peak_bytes"] for row in outcome.rounds) / 1e6
    cores = statistics.median(row["cpu_s"] / row["seconds"] for row in outcome.rounds)
    own = outcome.candidate.name == question.reference_of(outcome.candidate)
    speed = "1" if own else f"{outcome.ratio.median:.3f}" if outcome.ratio else "-"
    return {
        "": outcome.candidate.name[:33],
        "median": f"{median_s / scale:.2f} {suffix:2}",
        "min .. max": f"{low:.2f} .. {high:<6.2f}",
        "rate/s": f"{1 / median_s:.4g}",
        "speed": speed,
        "cores": f"{cores:.2f}",
        "faults": f"{faults:.0f}",
        "peak MB": f"{peak:.0f}",
    }


def write_figures(
    name: str,
    out: Path,
    content: Mapping[str, Any],
    *,
    taken_in: Mapping[str, Any] | None = None,
) -> Path:
    """Write figures into `out/name.json`, with the environment they were taken in.

    `taken_in` is the environment, if noted before measuring; None: the current one.
    """
    about = environment() if taken_in is None else taken_in
    return write_json(out / f"{name}.json", {"environment": about, **content})


def write_json(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a result file, make its folder if missing, and print the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written: {path}")
    return path
