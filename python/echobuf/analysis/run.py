"""One analysis: its phases in order, and the notes for its reader."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from echobuf.analysis import units
from echobuf.analysis.loaders import measure_parts, workers_ended
from echobuf.analysis.measurements import LoaderParts, Measurements
from echobuf.analysis.prediction import buffer_memory
from echobuf.analysis.source import Source, gives_no_more, take_random_state
from echobuf.analysis.step import Step
from echobuf.analysis.timers import (
    OneShotTimer,
    OverlapTimer,
    ReadTotals,
    UpstreamTimer,
)
from echobuf.analysis.timing import Budget, Timings
from echobuf.errors import OptionError, UpstreamError

_FEWEST = 8  # items of an epoch that is over within a second
_SHORT_S = 1.0
_WINDOW_BATCHES = 32
_BUSY = 0.5  # load average over the number of processors
_WIDE = 0.2  # largest difference between quarters of the run, relative to the mean


_ON_DEVICE = (
    "Items of upstream lie on a device: the time of each is that until the device has "
    "made it. A step on the same device shares the device with upstream, and both "
    "together take up to the sum of their times."
)


class Run:
    """The phases of one analysis, in order."""

    def __init__(
        self, source: Source, step: Step, budget: Budget, timeout: float
    ) -> None:
        self._source = source
        self._step = step
        self._budget = budget
        self._upstream_timer = UpstreamTimer(source, timeout)
        self._overlap = OverlapTimer(source, step, timeout)
        self._first = Timings(self._upstream_timer.group)
        self._second: Timings | None = None
        self._restore_random = take_random_state(source.upstream)
        self._notes = list(_load_notes())
        self._step_s = Timings()
        self._counted: int | None = None  # examples of a whole epoch

    def measure(self) -> Measurements:
        """Run all phases.

        Without a window the report is for one of 32 batches, or of an epoch.
        """
        source, arguments = self._source, self._source.arguments
        try:
            with workers_ended(source.data_loader):
                first = self._one_epoch() if source.one_shot else self._epochs()
                loader = self._parts()
        finally:
            source.end()
            self._restore_random()
        self._notes += _source_notes(source, self._counted)
        if self._step.changes_batch:
            self._notes.append(
                "The step changes its batch in place: alone, each call was given a "
                "copy, made apart."
            )
        if source.on_device:
            self._notes.append(_ON_DEVICE)
        self._notes += _spread_notes("upstream", self._second or self._first)
        self._notes += _spread_notes("the step", self._step_s)
        length, size = source.length(self._counted), source.batch_size
        batches = _WINDOW_BATCHES
        if length is not None:
            batches = min(batches, max(1, length // size))
        overlap, second = self._overlap, self._second
        return Measurements(
            spec=source.spec,
            batch_size=size,
            step_s=self._step_s.estimate(),
            upstream_first_s=self._first.estimate(),
            upstream_second_s=None if second is None else second.estimate(),
            together_s=overlap.timings.estimate(),
            wait_s=overlap.waits.estimate(),
            length=length,
            window=arguments.window or batches * size,
            max_factor=arguments.max_factor,
            device=arguments.device,
            loader=loader,
            one_shot=source.one_shot,
            seconds=self._budget.elapsed_s,
            notes=tuple(self._notes),
            item=source.item,
            startup_s=first.startup_s,
            ragged=source.lengths(),
        )

    def _parts(self) -> LoaderParts | None:
        if self._source.parts is None or self._source.on_device:
            return None  # worker processes cannot make what lies on a device
        self._restore_random()
        phase = self._budget.begin("parts of the DataLoader")
        loader, examples_in = self._source.parts
        try:
            return measure_parts(loader, phase, examples_in)
        except UpstreamError as error:  # some data sets work in workers only
            self._notes.append(f"The parts of the DataLoader cannot be told: {error}")
        return None

    # ---- an upstream that can be iterated again

    def _epochs(self) -> ReadTotals:
        source = self._source
        phase = self._budget.begin("upstream, first pass")

        def is_over(done: ReadTotals) -> bool:
            enough = done.items >= _FEWEST or done.seconds >= _SHORT_S
            return enough and source.has_batch and phase.is_over(self._first)

        first = self._upstream_timer.read(self._first, is_over, keep=True)
        took_s = phase.elapsed_s
        self._check_first(first)
        self._measure_step()
        second = self._second_pass(first, took_s)
        self._restore_random()
        together = self._budget.begin("together")
        timings = self._overlap.timings
        while not together.is_over(timings):
            if not self._overlap.run(lambda: together.is_over(timings)):
                raise gives_no_more(source.upstream)
        self._notes += _pass_notes(first, second)
        return first

    def _check_first(self, first: ReadTotals) -> None:
        source = self._source
        if not first.examples:
            raise UpstreamError(
                "`upstream` yields nothing; see whether its data is where it looks "
                "for it."
            )
        if not first.ended:
            return
        if first.items < _FEWEST and first.seconds < _SHORT_S:
            raise UpstreamError(
                f"`upstream` ended after {first.seconds:.2g} s and {first.items} "
                f"items: too few to measure; give at least {_FEWEST}, or a longer one."
            )
        if first.examples < source.batch_size:
            raise OptionError(
                f"`batch_size` is {source.batch_size}, but an epoch of `upstream` has "
                f"{first.examples} examples; make it smaller."
            )
        self._counted = first.examples

    def _second_pass(self, first: ReadTotals, took_s: float) -> ReadTotals:
        """Time the same items again, repeatedly if few; cut where far slower."""
        phase = self._budget.begin("upstream, second pass")
        timings = self._second = Timings(self._upstream_timer.group)
        longest_s = max(2 * took_s, phase.allowed_s)

        def is_over(done: ReadTotals) -> bool:
            whole = not first.ended and done.items >= first.items
            return whole or phase.elapsed_s > longest_s

        second = None
        while second is None or not phase.is_over(timings):
            self._restore_random()
            done = self._upstream_timer.read(timings, is_over)
            if not done.items:
                raise gives_no_more(self._source.upstream)
            second = second or done
        return second

    # ---- an upstream that gives one epoch

    def _one_epoch(self) -> ReadTotals:
        source, overlap = self._source, self._overlap
        self._budget.begin("upstream, first pass")
        timer = OneShotTimer(self._upstream_timer, source.begin(), self._first)
        timer.begin()
        if not timer.alone.examples:
            raise UpstreamError(
                "`upstream` yields nothing; pass one that has not been used."
            )
        if timer.alone.ended:
            timer.check(overlap, math.inf)
        self._measure_step()
        timer.take(overlap, self._budget.begin("together"))
        timer.check(overlap, _SHORT_S)
        if timer.alone.ended:
            self._counted = timer.alone.examples + overlap.served
        return timer.alone

    def _measure_step(self) -> None:
        batch, size = self._source.resident(), self._source.batch_size
        self._check_window()
        phase = self._budget.begin("step")
        self._step_s = self._step.measure(batch, size, phase)

    def _check_window(self) -> None:
        source, window = self._source, self._source.arguments.window
        if window is None:
            return
        if window < source.batch_size:
            raise OptionError(
                f"`window` is {window}; it must be at least the batch size, which is "
                f"{source.batch_size}."
            )
        buffer_memory(
            source.spec,
            batch_size=source.batch_size,
            window=window,
            factor=1,
            device=source.arguments.device,
            ragged=source.lengths(),
        )


def _load_notes() -> Iterator[str]:
    """Note a high load of the machine, before anything is measured."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return
    count = os.cpu_count() or 1
    if load > _BUSY * count:
        yield (
            f"The load average was {load:.1f} on {count} processors before measuring: "
            "other programs make the step and upstream slower than they are."
        )


def _pass_notes(first: ReadTotals, second: ReadTotals) -> Iterator[str]:
    """Note passes that were short or cut."""
    if first.ended and first.seconds < _SHORT_S:
        yield (
            f"An epoch of upstream took {first.seconds:.2g} s "
            f"({first.items} items); it was repeated."
        )
    if not first.ended:
        part = ""
        if second.items < first.items:
            part = f"; the second pass took in {second.items} of them"
        yield f"Measured on the first {first.items} items of upstream{part}."


def _spread_notes(name: str, timings: Timings) -> Iterator[str]:
    """Note times that differ much between quarters of the run."""
    parts = timings.parts()
    if not parts or max(parts) - min(parts) <= _WIDE * sum(parts) / len(parts):
        return
    ends = units.interval(min(parts), max(parts))
    yield (
        f"The time of {name} was not steady: {ends} an example, by quarters of the "
        "run. What is predicted varies as much; measure on an idle machine, or for "
        "longer."
    )


def _source_notes(source: Source, counted: int | None) -> Iterator[str]:
    """Note worker processes that may each yield the whole data set."""
    loader = source.data_loader
    if loader is None or not source.workers:
        return
    from torch.utils.data import IterableDataset

    if not isinstance(loader.dataset, IterableDataset):
        return
    line = (
        f"An IterableDataset with {source.workers} workers: each yields all of it, "
        "unless it takes its share by `torch.utils.data.get_worker_info()`."
    )
    try:
        said = len(loader.dataset)  # type: ignore[arg-type]
    except Exception:
        said = None
    if None not in (counted, said) and counted != said:
        line += f" An epoch held {counted} examples; len(dataset) is {said}."
    yield line
