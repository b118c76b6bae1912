"""`Monitor`: goes along with a training loop and writes what is measured."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from echobuf.describe_error import describe
from echobuf.errors import EchobufError, OptionError
from echobuf.metrics.sink import Sink, metrics_of, require
from echobuf.options import check_bool, check_int
from echobuf.stats import Stats

_END = object()
_RANGES = ("next_batch", "step")
_Range = Callable[[str], AbstractContextManager[Any]]


class Monitor:
    """Iterates a loader or a buffer, and writes its `stats()` to sinks.

    `for batch in Monitor(loader, sink)` gives what the loader gives. Whoever draws by
    other means calls `step()` after each step. What is written are the numbers that the
    buffer counts anyway: no device is waited for. Sinks are called on the thread that
    trains, between two steps, and once more when a loop ends.

    A sink that raises is warned of once (`RuntimeWarning`) and left out from then on;
    training goes on.

    Args:
        source: what has `stats()`: an `EchoLoader` of any kind, or an `EchoBuffer`.
        sinks: where to write; anything with the method of `Sink`. If a sink has a
            method `end`, that is called when a loop ends.
        every_s: seconds from one write to the next; 0 writes at each step.
        first_step: the number of steps done before, in a run that goes on.
        prefix: what names of metrics begin with.
        nvtx: mark each `next` and each step as a range for NVIDIA's profilers.

    Attributes:
        source: as given.
        steps: how many steps have been done.

    Raises:
        OptionError: an argument is none of these.
        MissingPackageError: `nvtx` is not installed.
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
        self._every_s = _check_seconds(every_s)
        self._prefix = prefix
        self._range = _ranges(check_bool("nvtx", nvtx))
        self._due_s = time.monotonic() + self._every_s

    def __iter__(self) -> Iterator[Any]:
        """Begins a loop over the source: an epoch of a loader."""
        return self._loop(iter(self.source))

    def _loop(self, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            while True:
                with self._range("next_batch"):
                    held = [next(batches, _END)]
                if held[0] is _END:
                    return
                with self._range("step"):
                    yield held.pop()  # it is the caller's alone
                self.step()
        finally:
            self.end()

    def __len__(self) -> int:
        """That of the source, if it has one."""
        return len(self.source)

    def step(self) -> None:
        """A step has been done; writes if the last write is long enough ago."""
        self.steps += 1
        now = time.monotonic()
        if now >= self._due_s:
            self._due_s = now + self._every_s
            self.write()

    def write(self) -> None:
        """Writes what there is now to all sinks."""
        stats: Stats = self.source.stats()
        metrics = metrics_of(stats, self._prefix)
        self._each(lambda sink: sink.write(self.steps, metrics))

    def end(self) -> None:
        """Writes a last time, as when a loop ends; more may follow."""
        with suppress(EchobufError):  # a buffer whose context was left says no more
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
    """What a sink without `end` does at the end."""


def _check_seconds(every_s: Any) -> float:
    number = isinstance(every_s, int | float) and not isinstance(every_s, bool)
    if not number or not 0 <= every_s < math.inf:
        raise OptionError(f"`every_s` is {every_s!r}; it must be seconds >= 0.")
    return float(every_s)


def _ranges(wanted: bool) -> _Range:
    if not wanted:
        nothing = nullcontext()
        return lambda name: nothing
    nvtx = require("nvtx", "nvtx", "`nvtx=True`")
    made = {name: nvtx.annotate(name, domain="echobuf") for name in _RANGES}
    return lambda name: made[name]
