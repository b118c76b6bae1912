"""Print the figures that were measured on a GPU as the table of docs/gpu.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results" / "gpu"

# Speeds of the candidates by name, each over its reference.
Speeds = dict[str, float]
# By result file: the work that it measured, and the rule that says if the aim was met.
ROWS: dict[str, tuple[str, Callable[[Speeds], bool] | None]] = {
    "gpu_draw_images": (
        "1,024 images of 150,528 bytes from 32,768",
        lambda speed: speed["echobuf out="] >= 0.9,
    ),
    "gpu_draw_pages": (
        "4,096 pages of 4 KB from 1,000,000",
        lambda speed: speed["echobuf out="] >= 0.8,
    ),
    "gpu_draw_small": (
        "4,096 records of 136 bytes from 1,000,000, between events",
        lambda speed: speed["echobuf out="] >= 3,
    ),
    "gpu_draw_small_device": (
        "the same, by the device's clock",
        lambda speed: speed["echobuf out="] >= 3,
    ),
    "gpu_host_time": (
        "the host's time of such a draw; with 32 fields; as a graph's replay",
        # 10 us from Python: the reference takes 27.2 us.
        lambda speed: speed["echobuf out="] >= 2.72,
    ),
    "gpu_draw_ragged": (
        "256 token sequences, mean 512, packed",
        lambda speed: speed["echobuf"] >= 0.9,
    ),
    "gpu_draw_ragged_padded": (
        "the same, padded",
        lambda speed: speed["echobuf"] > speed["torch pad_sequence"],
    ),
    "gpu_draw_resized": (
        "1,024 images: `RandomResizedCrop(224)`, flip, normalise, bfloat16",
        None,
    ),
    "gpu_upload": (
        "a gigabyte of images to the device",
        lambda speed: (
            max(v for n, v in speed.items() if n.startswith("echobuf")) >= 0.9
        ),
    ),
    "gpu_training": (
        "a step of a convolutional network, R = 6, e = 5",
        lambda speed: (
            speed["echobuf e = 5, R = 6"] >= 4.85
            and speed["echobuf e = 5, upstream fast"] >= 0.99
        ),
    ),
    "gpu_host_echoing_64": (
        "a step of it on images of 64x64, echoed on the host and on the device",
        lambda speed: (
            speed["echobuf on the device"] > speed["echobuf on the host, pinned"]
        ),
    ),
    "gpu_replay_136_bytes": (
        "a batch from a replay buffer, records of 136 bytes",
        lambda speed: (
            speed["echobuf out="] >= 5
            and speed["echobuf out="] >= 5 * speed["flashbax"]
        ),
    ),
    "gpu_replay_4_kb": (
        "the same, 4 KB",
        lambda speed: (
            speed["echobuf out="] >= 5
            and speed["echobuf out="] >= 5 * speed["flashbax"]
        ),
    ),
    "gpu_replay_150_kb": (
        "the same, 150 KB",
        lambda speed: min(speed["echobuf"], speed["echobuf out="]) >= 1,
    ),
}


def _time(seconds: float) -> str:
    scales = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
    scale, unit = next(pair for pair in scales if seconds >= pair[0])
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
    for name, (work, rule) in ROWS.items():
        content = json.loads((folder / f"{name}.json").read_text())
        speeds = {n: f["speed_over_reference"] for n, f in content["results"].items()}
        reached = "-" if rule is None else "yes" if rule(speeds) else "no"
        command = content["environment"]["command"]
        lines.append(
            f"| {work} | {_candidates(content)} | {content['aim']} | {reached} "
            f"| `{command}` |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
