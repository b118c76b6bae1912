"""Sinks for metrics, and `Monitor`, which writes to them along a training loop."""

from __future__ import annotations

import dataclasses
import importlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Protocol, runtime_checkable

from echobuf.arguments import check_bool, check_int, check_number
from echobuf.errors import EchobufError, MissingPackageError, OptionError, describe
from echobuf.resources import SharedGenerator
from echobuf.stats import Stats


@runtime_checkable
class Sink(Protocol):
    """Protocol of an object that takes metrics.

    Examples:
        >>> from echobuf.metrics import Monitor, Sink
        >>> loader = EchoLoader(range(100), batch_size=10, factor=2)
        >>> class Print:
        ...     def write(self, step, metrics):
        ...         print(step, metrics["echobuf/effective_factor"])
        >>> isinstance(Print(), Sink)
        True
        >>> for batch in Monitor(loader, Print(), every_s=60):
        ...     pass
        20 2.0
    """

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take the metrics after `step` steps.

        Args:
            step: number of steps done.
            metrics: finite numbers by name, such as `echobuf/t_upstream_s`; numbers
                that are not known yet are left out.

        Examples:
            >>> class Last:
            ...     def write(self, step, metrics):
            ...         self.step, self.metrics = step, dict(metrics)
            >>> sink = Last()
            >>> sink.write(3, {"echobuf/fresh": 10.0})
            >>> sink.step, sink.metrics
            (3, {'echobuf/fresh': 10.0})
        """


def metrics_of(stats: Stats, prefix: str = "echobuf") -> dict[str, float]:
    """Return the finite fields of `stats`, by the names `prefix/field`.

    Those of the payload are left out where no leaf is ragged.

    Examples:
        >>> from echobuf.metrics import metrics_of
        >>> loader = EchoLoader(range(100), batch_size=10, factor=2)
        >>> batches = list(loader)
        >>> metrics_of(loader.stats())["echobuf/effective_factor"]
        2.0
    """
    skipped = () if stats.payload_capacity else ("payload_bytes", "payload_capacity")
    return {
        f"{prefix}/{field.name}": value
        for field in dataclasses.fields(stats)
        if field.name not in skipped
        and math.isfinite(value := float(getattr(stats, field.name)))
    }


def require(module: str, package: str, what: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: name of the module.
        package: pip's name of the package.
        what: the caller's feature that needs it, for the message.

    Raises:
        MissingPackageError: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"{what} needs the package `{package}`, and {error}: pip install {package} "
            "(or 'data-echoing[metrics]')."
        ) from error


_END = object()
_RANGES = ("next_batch", "step")
_Range = Callable[[str], AbstractContextManager[Any]]


class Monitor:
    """Iterator over a loader or a buffer that writes its `stats()` to sinks.

    `for batch in Monitor(loader, sink)` yields the loader's batches. A training loop
    that draws by other means calls `step()` after each step. The buffer counts these
    numbers anyway, and no device is waited for. Sinks are called on the training
    thread, between two steps, and once more when a loop ends.

    If a sink raises, a `RuntimeWarning` reports it, the sink is called no more, and
    training goes on.

    Args:
        source: an `EchoLoader` of any kind, an `EchoBuffer`, or any iterable with
            `stats()`.
        sinks: objects with the method of `Sink`. If a sink has a method `end`, that is
            called when a loop ends.
        every_s: seconds from one write to the next; 0 writes at each step.
        first_step: number of steps done before, in a run that is resumed.
        prefix: prefix of the names of metrics.
        nvtx: whether to mark each `next` and each step as a range for NVIDIA's
            profilers, in a loop of one thread.

    Attributes:
        source: the loader or buffer.
        steps: number of steps done.

    Raises:
        OptionError: an argument is of another type or out of range.
        MissingPackageError: `nvtx` is not installed.

    Examples:
        >>> from echobuf.metrics import Monitor, Progress
        >>> loader = EchoLoader(range(100), batch_size=10, factor=2)
        >>> from rich.console import Console
        >>> console = Console(quiet=True)  # left out, it is standard error
        >>> monitor = Monitor(loader, Progress(console), every_s=5)
        >>> for batch in monitor:
        ...     pass
        >>> monitor.steps
        20
    """

    def __init__(
        self,
        source: Any,
        *sinks: Sink,
        every_s: float = 1.0,
        first_step: int = 0,
        prefix: str = "echobuf",
        nvtx: bool = False,
    ) -> None:
        if not callable(getattr(source, "stats", None)):
            raise OptionError(
                f"`source` is {source!r}; it must have `stats()`: pass an EchoLoader "
                "or an EchoBuffer."
            )
        for sink in sinks:
            if isinstance(sink, type) or not isinstance(sink, Sink):
                raise OptionError(
                    f"`sinks` has {sink!r}; a sink has a method `write(step, metrics)`."
                )
        self.source = source
        self.steps = check_int("first_step", first_step, 0, None)
        self._sinks = list(sinks)
        self._every_s = check_number(
            "every_s", every_s, lambda s: 0 <= s < math.inf, "seconds >= 0"
        )
        self._prefix = prefix
        self._range = _ranges(check_bool("nvtx", nvtx))
        self._due_s = time.monotonic() + self._every_s

    def __iter__(self) -> Iterator[Any]:
        """Iterate the source once: an epoch of a loader.

        Several threads may draw from the iterator: each batch goes to one of them.
        """
        return SharedGenerator(self._loop(iter(self.source)))

    def _loop(self, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            while True:
                with self._range("next_batch"):
                    held = [next(batches, _END)]
                if held[0] is _END:
                    return
                with self._range("step"):
                    yield held.pop()  # without keeping a reference to the batch
                self.step()
        finally:
            self.end()

    def __len__(self) -> int:
        """Return the length of the source, if it has one."""
        return len(self.source)

    def step(self) -> None:
        """Count a step, and write if the last write is at least `every_s` ago.

        Examples:
            >>> from echobuf.metrics import Monitor
            >>> loader = EchoLoader(range(100), batch_size=10, factor=2)
            >>> monitor = Monitor(loader, every_s=5)
            >>> for batch in loader:  # or `batch = buffer.next_batch()`
            ...     monitor.step()
            >>> monitor.end()
            >>> monitor.steps
            20
        """
        self.steps += 1
        now = time.monotonic()
        if now >= self._due_s:
            self._due_s = now + self._every_s
            self.write()

    def write(self) -> None:
        """Write the current metrics to all sinks.

        Examples:
            >>> from echobuf.metrics import Monitor, Prometheus
            >>> loader = EchoLoader(range(100), batch_size=10, factor=2)
            >>> from prometheus_client import CollectorRegistry
            >>> registry = CollectorRegistry()
            >>> monitor = Monitor(loader, Prometheus(registry=registry))
            >>> batches = list(loader)
            >>> monitor.write()
            >>> registry.get_sample_value("echobuf_effective_factor")
            2.0
        """
        stats: Stats = self.source.stats()
        metrics = metrics_of(stats, self._prefix)
        self._each(lambda sink: sink.write(self.steps, metrics))

    def end(self) -> None:
        """Write, and end the sinks, as at the end of a loop; more writes may follow."""
        with suppress(EchobufError):  # a buffer whose context was left has no stats
            self.write()
        self._each(lambda sink: getattr(sink, "end", _nothing)())

    def _each(self, call: Callable[[Sink], None]) -> None:
        for sink in tuple(self._sinks):
            try:
                call(sink)
            except Exception as error:
                self._sinks.remove(sink)
                warnings.warn(
                    f"the sink {type(sink).__name__} raised {describe(error)}; nothing "
                    "more is written to it.",
                    RuntimeWarning,
                    stacklevel=4,
                )


def _nothing() -> None:
    """Do nothing, in place of a missing `end`."""


def _ranges(wanted: bool) -> _Range:
    if not wanted:
        nothing = nullcontext()
        return lambda name: nothing
    nvtx = require("nvtx", "nvtx", "`nvtx=True`")
    made = {name: nvtx.annotate(name, domain="echobuf") for name in _RANGES}
    return lambda name: made[name]
