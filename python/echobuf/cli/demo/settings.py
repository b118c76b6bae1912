"""Settings of the demo: all figures that are chosen, not measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

__all__ = ["CONDITIONS", "Condition", "Settings"]


@dataclass(frozen=True)
class Condition:
    """One way to feed the same training from the same upstream.

    Attributes:
        key: Short name, used in the JSON file.
        title: Name for people.
        unit: What is echoed, as in `echobuf.EchoLoader`.
        factor: The echoing factor, as in `echobuf.EchoLoader`.
        window_batches: The window, in batches.
        distorted: The place of the distortion: upstream, once for each fresh example,
            or in the draw, anew for each echo.
    """

    key: str
    title: str
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
        seed: Seeds the first weights, the order, the distortions and echobuf.
        target: Test accuracy to reach, averaged over `smoothing` evaluations.
        bandwidth_kb_s: Bandwidth of the server in kB/s (1000 bytes a second), or
            `None` to choose it such that R comes out near `ratio`.
        out: Folder for the picture and the JSON file.
        progress: Whether to show progress.
        ratio: The R to calibrate for, where the bandwidth is not given.
        budget_s: Seconds after which a run stops without having reached the target.
        calibration_s: Seconds of one round of calibration.
        batch_size: Examples per step.
        learning_rate: The same for all runs, as is `momentum`.
        momentum: Of stochastic gradient descent.
        evaluate_every: Steps between two evaluations.
        smoothing: Evaluations in the running mean that has to reach the target.
        conditions: The runs, in order.
        device: The device of the window and the model.
        width: Width of the model's layers, relative to the usual one.
    """

    seed: int = 0
    target: float = 0.95
    bandwidth_kb_s: float | None = None
    out: Path = field(default=Path("echobuf-demo"))
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
