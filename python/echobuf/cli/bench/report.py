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

WIDTH = 100  # columns of a line at most
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
    median_s, ratio = outcome.median_s, outcome.ratio
    return {
        "median_s": median_s,
        "min_s": min(outcome.seconds),
        "max_s": max(outcome.seconds),
        "rate_per_s": 1 / median_s,
        "reference": question.reference_of(outcome.candidate),
        "speed_over_reference": ratio and ratio.median,
        "ratio_range": ratio and ratio.range,
        "cpu_s": statistics.median(r["cpu_s"] / r["units"] for r in outcome.rounds),
        **{
            name: float(statistics.median(row[name] for row in outcome.rounds))
            for name in ("minor_faults", "major_faults")
        },
        "peak_bytes": max(row["peak_bytes"] for row in outcome.rounds),
        "units_per_round": float(statistics.median(r["units"] for r in outcome.rounds)),
        "rounds_s": outcome.seconds,
        "settings": question.settings_of(outcome.candidate),
        **outcome.about,
    }


def print_table(question: Question, outcomes: Mapping[str, Outcome]) -> None:
    """Print a line for each candidate, as wide as the terminal, or 100 characters.

    A narrow terminal shows fewer columns.
    """
    rows = [_cells(question, each) for each in outcomes.values() if not each.failed_at]
    widths = {
        head: max([len(head), *(len(row[head]) for row in rows)])
        for head in (rows[0] if rows else [""])
    }
    shown = _fitting(widths, min(WIDTH, line_width() or WIDTH))
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
            print(wrapped(f"{name}: no figure ({reason})", indent=2, most=WIDTH))


def _fitting(widths: Mapping[str, int], width: int) -> Sequence[str]:
    """Return the heads of columns that fit; names, times and speed always stay."""
    heads = list(widths)
    for dropped in _DROPPED:
        if sum(widths[head] + 1 for head in heads) - 1 <= width:
            break
        heads.remove(dropped)
    return heads


def _cells(question: Question, outcome: Outcome) -> dict[str, str]:
    row = _row(question, outcome)
    median_s, speed = row["median_s"], row["speed_over_reference"]
    scale, suffix = next((s for s in _SCALES if median_s >= s[0]), _SCALES[-1])
    cores = statistics.median(r["cpu_s"] / r["seconds"] for r in outcome.rounds)
    if outcome.candidate.name == row["reference"]:
        shown = "1"
    else:
        shown = "-" if speed is None else f"{speed:.3f}"
    return {
        "": outcome.candidate.name[:33],
        "median": f"{median_s / scale:.2f} {suffix:2}",
        "min .. max": f"{row['min_s'] / scale:.2f} .. {row['max_s'] / scale:<6.2f}",
        "rate/s": f"{row['rate_per_s']:.4g}",
        "speed": shown,
        "cores": f"{cores:.2f}",
        "faults": f"{row['minor_faults'] + row['major_faults']:.0f}",
        "peak MB": f"{row['peak_bytes'] / 1e6:.0f}",
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
