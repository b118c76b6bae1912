"""Output of a GPU benchmark: a table, a JSON file and a picture."""

from __future__ import annotations

import importlib.metadata
import os
import statistics
from pathlib import Path
from typing import Any

from ask import Answer, Question
from echobuf.cli.bench.report import write_json
from echobuf.cli.bench.rounds import paired_ratio
from echobuf.cli.environment import environment
from place import Place
from table import reached

_PACKAGES = (
    "data-echoing",
    "numpy",
    "optree",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "torch",
    "jax",
    "torchrl",
    "tensordict",
    "flashbax",
)
_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns"))
_OWN, _OTHER = "#1b7f6b", "#b8bcc2"


def write(
    question: Question, place: Place, answers: dict[str, Answer], out: Path
) -> Path:
    """Print the table, and write the figures and, with matplotlib, the picture."""
    results = {name: row(answer, answers) for name, answer in answers.items()}
    _print(question, place, results)
    if not place.simulated:
        print(f"reached: {reached(question.name, results)}")
    # A run on the simulated driver is no measurement; it must not look like one.
    suffix = ".simulated" if place.simulated else ""
    content = {
        "simulated": place.simulated,
        "question": question.name,
        "aim": question.aim,
        "unit": f"seconds for one {question.unit}",
        "reference": question.reference,
        "settings": {**question.settings, **(question.tiny if place.simulated else {})},
        "environment": where(place),
        "results": results,
    }
    path = write_json(out / f"{question.name}{suffix}.json", content)
    _draw(question, place, results, path.with_suffix(".png"))
    return path


def where(place: Place) -> dict[str, Any]:
    """Return machine, GPU, driver, versions and commit."""
    taken = environment()
    # Where the checkout travelled without its history, who carried it says the commit.
    taken["commit"] = taken["commit"] or os.environ.get("ECHOBUF_COMMIT")
    return {**taken, **place.about, "versions": _versions()}


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def row(answer: Answer, answers: dict[str, Answer]) -> dict[str, Any]:
    """Return the figures of a candidate."""
    reference = answer.reference
    if answer.failed is not None or not answer.rounds_s:
        reason = answer.failed or "no round was finished"
        return {"failed": reason, "rounds_s": answer.rounds_s}
    times = sorted(answer.rounds_s)
    if len(times) > 1:
        low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    else:
        low = median = high = times[0]
    other = answers.get(reference)
    ratio = None
    if other is not None and other.failed is None and other.rounds_s:
        ratio = paired_ratio(other.rounds_s, answer.rounds_s)
    speed = {}
    if "bytes_per_unit" in answer.facts:
        speed["bytes_per_s"] = answer.facts["bytes_per_unit"] / median
    return {
        "median_s": median,
        "quartiles_s": [low, high],
        "min_s": times[0],
        "max_s": times[-1],
        "rate_per_s": 1 / median,
        "reference": reference,
        "speed_over_reference": ratio and ratio.median,
        "ratio_range": ratio and ratio.range,
        "clock": answer.clock,
        "settings": answer.candidate.settings,
        "rounds_s": answer.rounds_s,
        **answer.facts,
        **speed,
    }


def _print(question: Question, place: Place, results: dict[str, Any]) -> None:
    note = " (SIMULATED: no measurement)" if place.simulated else ""
    print(f"\n{question.name}{note}: time for one {question.unit}; aim: {question.aim}")
    print(f"{'':44}{'median':>10} {'quartiles':>19} {'rate/s':>10} {'speed':>7}")
    for name, figures in results.items():
        if "failed" in figures:
            print(f"{name[:44]:44} no figure: {figures['failed']}"[:100])
            continue
        scale, suffix = next(s for s in _SCALES if figures["median_s"] >= s[0])
        scale = scale or 1e-9
        low, high = (value / scale for value in figures["quartiles_s"])
        speed = figures["speed_over_reference"]
        print(
            f"{name[:44]:44}{figures['median_s'] / scale:7.2f} {suffix:2}"
            f" {low:8.2f} .. {high:<7.2f} {figures['rate_per_s']:10.4g}"
            f" {'-' if speed is None else f'{speed:.3f}':>7}"
        )


def _draw(
    question: Question, place: Place, results: dict[str, Any], path: Path
) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        print(f"no picture: {error}")
        return
    speeds = {
        name: figures["speed_over_reference"]
        for name, figures in results.items()
        if figures.get("speed_over_reference")
    }
    if not speeds:
        return
    figure = Figure(figsize=(8, 1.4 + 0.34 * len(speeds)), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    colours = [_OWN if name.startswith("echobuf") else _OTHER for name in speeds]
    bars = panel.barh(list(speeds), list(speeds.values()), color=colours)
    panel.bar_label(bars, [f"{speed:.2f}" for speed in speeds.values()], padding=3)
    panel.invert_yaxis()
    panel.margins(x=0.12)
    note = "SIMULATED, no measurement: " if place.simulated else ""
    title = f"{note}{question.name}\naim: {question.aim}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    panel.set_xlabel("speed over the reference of each", fontsize=8)
    panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
