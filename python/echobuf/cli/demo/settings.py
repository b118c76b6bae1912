"""Settings of the demo: all figures that are chosen, not measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Condition:
    """One way to feed the same training from the same upstream.

    `echobuf.EchoLoader` gets `unit` and `factor`. Images are distorted upstream, once
    for each fresh example, or in the draw, anew for each echo.
    """

    key: str  # in the JSON file
    title: str  # for people
    unit: Literal["example", "batch"]
    factor: float | Literal["auto"]
    window_batches: int
    distorted: Literal["upstream", "draw"] = "upstream"


# All ways of echoing have the same memory. Without echoing a large window is useless,
# as the upstream is shuffled: two batches let loading and training overlap.
CONDITIONS = (
    Condition("none", "no echoing", "batch", 1, 2),
    Condition("batch", "batch echoing", "batch", 6, 32),
    Condition("example", "example echoing", "example", "auto", 32),
    Condition("before", "before augmentation", "example", "auto", 32, "draw"),
)


@dataclass(frozen=True)
class Settings:
    """The choices behind one demo; those of training are the same in all runs."""

    seed: int = 0  # of the first weights, the order, the distortions and echobuf
    target: float = 0.95  # test accuracy, the mean of `smoothing` evaluations
    # Of the server, in 1000 bytes a second; None: it is chosen such that R is `ratio`.
    bandwidth_kb_s: float | None = None
    out: Path = Path("echobuf-demo")  # folder of the picture and the JSON file
    progress: bool = True
    ratio: float = 6.0
    budget_s: float = 75.0  # after which a run ends without having reached the target
    calibration_s: float = 1.5  # of one round of calibration
    batch_size: int = 32
    learning_rate: float = 0.03  # of stochastic gradient descent
    momentum: float = 0.9
    evaluate_every: int = 20  # steps
    smoothing: int = 5
    conditions: tuple[Condition, ...] = CONDITIONS  # of the runs, in order
    device: str = "cpu"  # of the window and the model
    width: int = 1  # of the model's layers, relative to the usual one
