"""Sinks for metrics: a terminal, Prometheus, TensorBoard, Weights & Biases."""

from __future__ import annotations

import functools
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from echobuf.errors import OptionError
from echobuf.metrics.monitor import require

_COUNTED = ("fresh", "served", "passes", "put_wait_s", "next_wait_s")
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


class TensorBoard:
    """Sink that writes scalars for TensorBoard, to a folder or with a given writer.

    Args:
        where: a folder, which is made if missing, or an object with
            `add_scalar(tag, value, step)`, as `torch.utils.tensorboard.SummaryWriter`.

    Raises:
        OptionError: `where` is neither a folder nor a writer.
        MissingPackageError: a folder was given and tensorboard is not installed.

    Examples:
        >>> from echobuf.metrics import TensorBoard
        >>> class Writer:  # or a folder, or torch.utils.tensorboard.SummaryWriter()
        ...     def add_scalar(self, tag, value, step):
        ...         print(step, tag, value)
        >>> TensorBoard(Writer()).write(3, {"echobuf/ratio": 2.5})
        3 echobuf/ratio 2.5
    """

    def __init__(self, where: Any) -> None:
        if isinstance(where, str | os.PathLike):
            self._write: Any = _EventFile(Path(where)).add
        elif callable(getattr(where, "add_scalar", None)):
            self._write = functools.partial(_add_scalars, where)
        else:
            raise OptionError(
                f"`where` is {where!r}; it must be a folder, or have "
                "`add_scalar(tag, value, step)`."
            )

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        self._write(step, metrics)


def _add_scalars(writer: Any, step: int, metrics: Mapping[str, float]) -> None:
    for name, value in metrics.items():
        writer.add_scalar(name, value, step)


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

    Examples:
        >>> from echobuf.metrics import WandB
        >>> class Run:  # or wandb.init()
        ...     def define_metric(self, name, step_metric): ...
        ...     def log(self, row):
        ...         print(row)
        >>> WandB(Run()).write(3, {"echobuf/ratio": 2.5})
        {'echobuf/step': 3, 'echobuf/ratio': 2.5}
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


class Prometheus:
    """Sink that offers the last metrics written to a Prometheus server.

    Names include the unit: `echobuf_t_upstream_seconds`, `echobuf_bytes_host`. Values
    that only grow within an epoch are counters (`echobuf_fresh_total`,
    `echobuf_next_wait_seconds_total`), which start from zero with each epoch, as
    Prometheus allows for counters; all others are gauges.

    Args:
        port: port for `/metrics`, served on a thread of prometheus_client; 0 takes a
            free one. By default nothing is served, and the metrics are added to
            `registry`.
        registry: a registry of prometheus_client; by default its global one, or a new
            one with a port.
        address: address to serve at; "0.0.0.0" admits other machines.

    Attributes:
        port: the port served at, or None.

    Raises:
        OptionError: the port cannot be served at.
        MissingPackageError: prometheus_client is not installed.

    Examples:
        >>> from prometheus_client import CollectorRegistry
        >>> from echobuf.metrics import Prometheus
        >>> registry = CollectorRegistry()
        >>> prometheus = Prometheus(registry=registry)  # or Prometheus(port=9100)
        >>> prometheus.write(3, {"echobuf/ratio": 2.5})
        >>> registry.get_sample_value("echobuf_ratio")
        2.5
        >>> [family.name for family in prometheus.collect()]
        ['echobuf_ratio']
        >>> prometheus.close()
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        registry: Any = None,
        address: str = "127.0.0.1",
    ) -> None:
        client = require("prometheus_client", "prometheus-client", "Prometheus()")
        core = require("prometheus_client.core", "prometheus-client", "Prometheus()")
        self._counter = core.CounterMetricFamily
        self._gauge = core.GaugeMetricFamily
        self._metrics: dict[str, float] = {}
        self.port: int | None = None
        self._server: Any = None
        if registry is None:
            registry = client.REGISTRY if port is None else client.CollectorRegistry()
        if port is not None:
            try:
                self._server, _ = client.start_http_server(port, address, registry)
            except (OSError, OverflowError, TypeError) as error:
                raise OptionError(
                    f"`port` is {port!r}, which cannot be served at ({error}); take "
                    "another, or 0 for any that is free."
                ) from error
            self.port = self._server.server_port
        self._registry = registry
        registry.register(self)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keep the metrics until the next write."""
        # Another mapping each time: a scrape on another thread goes through the old.
        self._metrics = {**self._metrics, **metrics}

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, for a scrape by prometheus_client."""
        for name, value in self._metrics.items():
            field = name.rpartition("/")[2]
            said = re.sub(r"_s$", "_seconds", re.sub(r"[^a-zA-Z0-9_:]", "_", name))
            family = self._counter if field in _COUNTED else self._gauge
            yield family(said, f"`{field}` of echobuf's stats()", value=value)

    def close(self) -> None:
        """Remove the metrics from the registry, and stop serving."""
        server, self._server, self.port = self._server, None, None
        if server is not None:
            server.shutdown()
            server.server_close()
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.unregister(self)


class Progress:
    """Sink that updates one line on a terminal; elsewhere it prints a line a write.

    The line changes with each write only. It stays when a loop ends, and the next loop
    has another line.

    Args:
        console: a `rich.console.Console`; by default one for standard error.

    Raises:
        MissingPackageError: rich is not installed.

    Examples:
        >>> import sys
        >>> from rich.console import Console
        >>> from echobuf.metrics import Progress
        >>> progress = Progress(Console(file=sys.stdout, width=80))
        >>> loader = EchoLoader(range(100), batch_size=10, factor=2)
        >>> progress.write(0, echobuf.metrics.metrics_of(loader.stats()))
        step 0  fresh 0  served 0  e 0.00  R -  waiting 0.0%
        >>> progress.end()
    """

    def __init__(self, console: Any = None) -> None:
        self._live_of = require("rich.live", "rich", "Progress()").Live
        if console is None:
            console = require("rich.console", "rich", "Progress()").Console(stderr=True)
        self._text = require("rich.text", "rich", "Progress()").Text
        self._console = console
        self._live: Any = None

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the metrics."""
        text = self._text(_line(step, metrics), no_wrap=True, overflow="ellipsis")
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            self._console.print(text, highlight=False, soft_wrap=True)
        elif self._live is None:
            self._live = self._live_of(
                text, console=self._console, auto_refresh=False, redirect_stdout=True
            )
            self._live.start(refresh=True)
        else:
            self._live.update(text, refresh=True)

    def end(self) -> None:
        """End the line, which stays on the terminal."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()


def _line(step: int, metrics: Mapping[str, float]) -> str:
    known = {name.rpartition("/")[2]: value for name, value in metrics.items()}
    parts = [f"step {step:,}"]
    parts += [f"{name} {_short(known[name])}" for name in ("fresh", "served")]
    parts.append(f"e {known['effective_factor']:.2f}")
    parts.append(f"R {known['ratio']:.2f}" if "ratio" in known else "R -")
    parts.append(f"waiting {known['wait_share']:.1%}")
    if known.get("padding_share"):
        parts.append(f"padding {known['padding_share']:.1%}")
    return "  ".join(parts)


def _short(count: float) -> str:
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.4g}{unit}"
    return f"{count:.0f}"
