"""Settings of the demo: all figures that are chosen, not measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Condition:
    """One way to feed the same training from the same upstream.

    `unit` and `factor` are those of `echobuf.EchoLoader`. The distortion is upstream,
    once for each fresh example, or in the draw, anew for each echo.
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
    """The choices behind one demo.

    Attributes:
        seed: seeds the first weights, the order, the distortions and echobuf.
        target: test accuracy to reach, averaged over `smoothing` evaluations.
        bandwidth_kb_s: bandwidth of the server in kB/s (1000 bytes a second), or
            None to choose it such that R comes out near `ratio`.
        out: folder for the picture and the JSON file.
        progress: whether to show progress.
        ratio: the R to calibrate for, where the bandwidth is not given.
        budget_s: seconds after which a run stops without having reached the target.
        calibration_s: seconds of one round of calibration.
        batch_size: examples per step.
        learning_rate: of stochastic gradient descent, in all runs.
        momentum: of stochastic gradient descent, in all runs.
        evaluate_every: steps between two evaluations.
        smoothing: evaluations in the running mean that has to reach the target.
        conditions: the runs, in order.
        device: the device of the window and the model.
        width: width of the model's layers, relative to the usual one.
    """

    seed: int = 0
    target: float = 0.95
    bandwidth_kb_s: float | None = None
    out: Path = Path("echobuf-demo")
    progress: bool = True
    ratio: float = 6.0
    budget_s: float = 75.0
    calibration_s: float = 1.5
    batch_size: int = 32
    learning_rate: float = 0.03
    momentum: float = 0.9
    evaluate_every: int = 20
    smoothing: int = 5
    conditions: tuple[Condition, ...] = CONDITIONS
    device: str = "cpu"
    width: int = 1
