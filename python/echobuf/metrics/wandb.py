"""`WandB`: a run of Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echobuf.errors import OptionError
from echobuf.metrics.sink import require


class WandB:
    """Logs to a run of Weights & Biases, over an axis of its own.

    What else is logged to the run counts its steps as it likes: the x-axis of these
    metrics is `echobuf/step`. wandb itself writes and uploads in another process.

    Args:
        run: what `wandb.init` returned; the run that is active unless told.

    Raises:
        OptionError: `run` is no run, or none is active.
        MissingPackageError: `run` was left out and wandb is not installed.
    """

    def __init__(self, run: Any = None) -> None:
        if run is None:
            run = require("wandb", "wandb", "WandB()").run
        if not callable(getattr(run, "log", None)):
            raise OptionError(
                f"`run` is {run!r}; it must be a run of wandb: call `wandb.init()` "
                "before, or pass what it returned."
            )
        self._run = run
        self._defined: set[str] = set()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Logs them in one row."""
        for name in metrics.keys() - self._defined:
            self._run.define_metric(name, step_metric="echobuf/step")
            self._defined.add(name)
        self._run.log({"echobuf/step": step, **metrics})
