"""Table and result file of a benchmark."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from echobuf.cli.bench.environment import environment
from echobuf.cli.bench.questions import Question
from echobuf.cli.bench.rounds import Failed, Measured, Outcome
from echobuf.cli.output import line_width, wrapped

__all__ = [
    "figures",
    "print_table",
    "summary",
    "write",
    "write_figures",
    "write_json",
]

_WIDTH = 100
_HEADS = ("", "median", "min .. max", "rate/s", "speed", "cores", "faults", "peak MB")
_DROPPED = ("faults", "peak MB", "cores", "rate/s", "min .. max")  # in that order
_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def summary(question: Question, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return the figures of each candidate, or the reason for having none."""
    return {name: _row(question, outcome) for name, outcome in outcomes.items()}


def _row(question: Question, outcome: Outcome) -> dict[str, Any]:
    candidate = outcome.candidate
    settings = {**question.settings, **candidate.settings}
    if isinstance(outcome, Failed):
        return {"failed_at": outcome.stage, "reason": outcome.reason}
    return {
        "median_s": outcome.median_s,
        "min_s": min(outcome.seconds),
        "max_s": max(outcome.seconds),
        "rate_per_s": 1 / outcome.median_s,
        "reference": question.reference_of(candidate),
        "speed_over_reference": outcome.ratio and outcome.ratio.median,
        "ratio_range": outcome.ratio and outcome.ratio.range,
        "cpu_s": statistics.median(r["cpu_s"] / r["units"] for r in outcome.rounds),
        "minor_faults": _median(outcome, "minor_faults"),
        "major_faults": _median(outcome, "major_faults"),
        "peak_bytes": max(row["peak_bytes"] for row in outcome.rounds),
        "units_per_round": _median(outcome, "units"),
        "rounds_s": outcome.seconds,
        "settings": settings,
        **outcome.about,
    }


def _median(outcome: Measured, key: str) -> float:
    return float(statistics.median(row[key] for row in outcome.rounds))


def print_table(question: Question, outcomes: Mapping[str, Outcome]) -> None:
    """Print a line for each candidate, as wide as the terminal, or 100 characters.

    A narrow terminal shows fewer columns.
    """
    width = min(_WIDTH, line_width() or _WIDTH)
    rows = [_cells(question, o) for o in outcomes.values() if isinstance(o, Measured)]
    heads = _fitting(rows, width)
    title = f"{question.name}: time for one {question.unit}, speed over the reference"
    print(f"\n{wrapped(title)}")
    for row in [{head: head for head in heads} | {"": ""}, *rows]:
        cells = (f"{row[h]:>{_column(rows, h)}}" for h in heads if h)
        print(f"{row['']:<{_column(rows, '')}} {' '.join(cells)}".rstrip())
    if len(heads) < len(_HEADS):
        print(wrapped("(more columns in a wider terminal, and in the JSON file)"))
    for name, other in outcomes.items():
        if isinstance(other, Failed):
            reason = " ".join(f"{other.stage}: {other.reason}".split())
            print(wrapped(f"{name}: no figure ({reason})", indent=2, most=_WIDTH))


def _fitting(rows: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Return the heads of columns that fit; names, times and speed always stay."""
    heads = list(_HEADS)
    for dropped in _DROPPED:
        if sum(_column(rows, head) + 1 for head in heads) - 1 <= width:
            break
        heads.remove(dropped)
    return heads


def _column(rows: Sequence[Mapping[str, str]], head: str) -> int:
    return max([len(head), *(len(row[head]) for row in rows)])


def _cells(question: Question, outcome: Measured) -> dict[str, str]:
    scale, suffix = _scale(outcome.median_s)
    low, high = min(outcome.seconds) / scale, max(outcome.seconds) / scale
    faults = _median(outcome, "minor_faults") + _median(outcome, "major_faults")
    peak = max(row["peak_bytes"] for row in outcome.rounds) / 1e6
    cores = statistics.median(row["cpu_s"] / row["seconds"] for row in outcome.rounds)
    own = outcome.candidate.name == question.reference_of(outcome.candidate)
    speed = "1" if own else f"{outcome.ratio.median:.3f}" if outcome.ratio else "-"
    texts = (
        outcome.candidate.name[:33],
        f"{outcome.median_s / scale:.2f} {suffix:2}",
        f"{low:.2f} .. {high:<6.2f}",
        f"{1 / outcome.median_s:.4g}",
        speed,
        f"{cores:.2f}",
        f"{faults:.0f}",
        f"{peak:.0f}",
    )
    return dict(zip(_HEADS, texts, strict=True))


def _scale(seconds: float) -> tuple[float, str]:
    return next((s for s in _SCALES if seconds >= s[0]), _SCALES[-1])


def write(question: Question, outcomes: Mapping[str, Outcome], out: Path) -> Path:
    """Write the figures of a question to `out/NAME.json`, and print the path."""
    return write_figures(question.name, out, figures(question, outcomes))


def figures(question: Question, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return the unit, the reference, and the figures of each candidate, for JSON."""
    return {
        "unit": f"seconds for one {question.unit}",
        "reference": question.reference,
        "results": summary(question, outcomes),
    }


def write_figures(
    name: str,
    out: Path,
    content: Mapping[str, Any],
    *,
    taken_in: Mapping[str, Any] | None = None,
) -> Path:
    """Write figures with the environment they were taken in, and print the path.

    Args:
        name: of the file, without `.json`.
        out: its folder.
        content: the figures.
        taken_in: the environment, if noted before measuring; `None`: the current one.
    """
    about = environment() if taken_in is None else taken_in
    return write_json(out / f"{name}.json", {"environment": about, **content})


def write_json(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a result file, make its folder if missing, and print the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written: {path}")
    return path
