"""Sinks for experiment trackers: TensorBoard and Weights & Biases."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echobuf.errors import OptionError
from echobuf.metrics.monitor import require


class TensorBoard:
    """Sink that writes scalars for TensorBoard, to a folder or with a given writer.

    Args:
        where: a folder, which is made if missing, or an object with
            `add_scalar(tag, value, step)`, as `torch.utils.tensorboard.SummaryWriter`.

    Raises:
        OptionError: `where` is neither a folder nor a writer.
        MissingPackageError: a folder was given and tensorboard is not installed.
    """

    def __init__(self, where: Any) -> None:
        if isinstance(where, str | os.PathLike):
            self._add: Any = _EventFile(Path(where)).add
        elif callable(getattr(where, "add_scalar", None)):
            self._add = _Writer(where).add
        else:
            raise OptionError(
                f"`where` is {where!r}; it must be a folder, or have "
                "`add_scalar(tag, value, step)`."
            )

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        self._add(step, metrics)


class _Writer:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)


class _EventFile:
    """A file of events, flushed at each write.

    It is written with the protocol buffers alone, since tensorboard's writer imports
    TensorFlow where that is installed.
    """

    def __init__(self, folder: Path) -> None:
        def part(module: str) -> Any:
            return require(
                f"tensorboard.{module}", "tensorboard", "TensorBoard(folder)"
            )

        self._event = part("compat.proto.event_pb2").Event
        self._summary = part("compat.proto.summary_pb2").Summary
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{now:.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = (folder / f"{name}.echobuf").open("ab")
        self._records = part("summary.writer.record_writer").RecordWriter(self._file)
        self._put(self._event(wall_time=now, file_version="brain.Event:2"))

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in metrics.items()
        ]
        summary = self._summary(value=values)
        self._put(self._event(wall_time=time.time(), step=step, summary=summary))

    def _put(self, event: Any) -> None:
        self._records.write(event.SerializeToString())
        self._records.flush()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


class WandB:
    """Sink that logs to a run of Weights & Biases.

    The x-axis of the metrics is `echobuf/step`, so that it does not depend on the steps
    of other metrics of the run. wandb writes and uploads in another process.

    Args:
        run: the result of `wandb.init`; by default the active run.

    Raises:
        OptionError: `run` is no run, or no run is active.
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
        """Log the metrics in one row."""
        for name in metrics.keys() - self._defined:
            self._run.define_metric(name, step_metric="echobuf/step")
            self._defined.add(name)
        self._run.log({"echobuf/step": step, **metrics})
