"""Print the figures that were measured on a GPU as the table of docs/gpu.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results" / "gpu"

# Of the candidates by name: the speed over the reference of each, and its time.
Speeds = dict[str, float]
Seconds = dict[str, float]
# By result file: the work that it measured, and the rule that says if the aim was met.
ROWS: dict[str, tuple[str, Callable[[Speeds, Seconds], bool] | None]] = {
    "gpu_draw_images": (
        "1,024 images of 150,528 bytes from 32,768",
        lambda speed, _: speed["echobuf out="] >= 0.9,
    ),
    "gpu_draw_pages": (
        "4,096 pages of 4 KB from 1,000,000",
        lambda speed, _: speed["echobuf out="] >= 0.8,
    ),
    "gpu_draw_small": (
        "4,096 records of 136 bytes from 1,000,000, between events",
        lambda speed, _: speed["echobuf out="] >= 3,
    ),
    "gpu_draw_small_device": (
        "the same, by the device's clock",
        lambda speed, _: speed["echobuf out="] >= 3,
    ),
    "gpu_host_time": (
        "the host's time of such a draw; with 32 fields; as a graph's replay",
        lambda _, seconds: seconds["echobuf out="] <= 10e-6,
    ),
    "gpu_draw_ragged": (
        "256 token sequences, mean 512, packed",
        lambda speed, _: speed["echobuf"] >= 0.9,
    ),
    "gpu_draw_ragged_padded": (
        "the same, padded",
        lambda speed, _: speed["echobuf"] > speed["torch pad_sequence"],
    ),
    "gpu_draw_resized": (
        "1,024 images: `RandomResizedCrop(224)`, flip, normalise, bfloat16",
        None,
    ),
    "gpu_upload": (
        "a gigabyte of images to the device",
        lambda speed, _: (
            max(v for n, v in speed.items() if n.startswith("echobuf")) >= 0.9
        ),
    ),
    "gpu_training": (
        "a step of a convolutional network, R = 6, e = 5",
        lambda speed, _: (
            speed["echobuf e = 5, R = 6"] >= 4.85
            and speed["echobuf e = 5, upstream fast"] >= 0.99
        ),
    ),
    "gpu_host_echoing_64": (
        "a step of it on images of 64x64, echoed on the host and on the device",
        lambda speed, _: (
            speed["echobuf on the device"] > speed["echobuf on the host, pinned"]
        ),
    ),
    "gpu_replay_136_bytes": (
        "a batch from a replay buffer, records of 136 bytes",
        lambda speed, _: (
            speed["echobuf out="] >= 5
            and speed["echobuf out="] >= 5 * speed["flashbax"]
        ),
    ),
    "gpu_replay_4_kb": (
        "the same, 4 KB",
        lambda speed, _: (
            speed["echobuf out="] >= 5
            and speed["echobuf out="] >= 5 * speed["flashbax"]
        ),
    ),
    "gpu_replay_150_kb": (
        "the same, 150 KB",
        lambda speed, _: min(speed["echobuf"], speed["echobuf out="]) >= 1,
    ),
    "gpu_put_136_bytes": (
        "records of 136 bytes put from the device, 256 at a time",
        lambda speed, _: (
            speed["echobuf, 256"] >= 5
            and speed["echobuf, 256"] >= 3 * speed["flashbax, 256"]
        ),
    ),
    "gpu_put_4_kb": ("the same, 4 KB", None),
    "gpu_put_150_kb": ("the same, 150 KB", None),
    "gpu_put_copied": (
        "images of 150,528 bytes put from the device, by the device's clock",
        lambda speed, _: speed["echobuf, 256"] >= 0.9,
    ),
    "gpu_put_host_time": (
        "the host's time of a put from the device",
        lambda _, seconds: seconds["echobuf, 256"] <= 10e-6,
    ),
    "gpu_put_and_draw": (
        "a put of 256 records of 136 bytes from the device, and four batches of 256",
        None,
    ),
}

# Of the result files that no GPU has written yet: the aim, and the command.
NOT_MEASURED: dict[str, tuple[str, str]] = {
    name: (aim, "python bench/gpu/put_device.py")
    for name, aim in {
        "gpu_put_136_bytes": "5 times TorchRL's records a second, 3 times flashbax's",
        "gpu_put_4_kb": "none set",
        "gpu_put_150_kb": "none set",
        "gpu_put_copied": "0.9 of a copy on the device",
        "gpu_put_host_time": "10 us",
        "gpu_put_and_draw": "none set",
    }.items()
}


def reached(name: str, results: dict[str, Any]) -> str:
    """Return "yes" or "no"; "-" if there is no aim, or a candidate has no figure.

    Args:
        name: of the result file.
        results: the figures of its candidates.
    """
    _, rule = ROWS.get(name, ("", None))
    measured = {n: f for n, f in results.items() if "failed" not in f}
    speeds = {n: f["speed_over_reference"] for n, f in measured.items()}
    seconds = {n: f["median_s"] for n, f in measured.items()}
    try:
        return "-" if rule is None else "yes" if rule(speeds, seconds) else "no"
    except (KeyError, TypeError):  # of what the aim compares, one has no figure
        return "-"


def _time(seconds: float) -> str:
    scales = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns"))
    scale, unit = next(pair for pair in scales if seconds >= pair[0])
    scale = scale or 1e-9
    return f"{seconds / scale:.3g} {unit}"


def _candidates(content: dict[str, Any]) -> str:
    said = []
    for name, figures in content["results"].items():
        of = figures["reference"]
        speed = "" if name == of else f" ({figures['speed_over_reference']:.3g})"
        said.append(f"{name}: {_time(figures['median_s'])}{speed}")
    return "; ".join(said)


def markdown(folder: Path = RESULTS) -> str:
    """Return the table: a row for each result file."""
    lines = [
        "| work | median time (speed over the reference) | aim | reached | command |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, (work, _) in ROWS.items():
        if name in NOT_MEASURED:
            aim, command = NOT_MEASURED[name]
            lines.append(f"| {work} | not measured yet | {aim} | - | `{command}` |")
            continue
        content = json.loads((folder / f"{name}.json").read_text())
        command = content["environment"]["command"]
        lines.append(
            f"| {work} | {_candidates(content)} | {content['aim']} "
            f"| {reached(name, content['results'])} | `{command}` |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
