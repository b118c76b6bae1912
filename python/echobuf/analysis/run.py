"""One analysis: its phases, one after the other."""

from __future__ import annotations

import math

from echobuf.analysis import notes
from echobuf.analysis.data_loader import Workers, measure_parts
from echobuf.analysis.measurements import Estimate, LoaderParts, Measurements
from echobuf.analysis.memory import buffer_memory
from echobuf.analysis.one_shot import Turns, check_long_enough
from echobuf.analysis.passes import Pass, Reader
from echobuf.analysis.phases import Budget, Clock, Phase
from echobuf.analysis.random_state import RandomState
from echobuf.analysis.reading import Reading
from echobuf.analysis.source import Source, gives_no_more
from echobuf.analysis.step import Step
from echobuf.analysis.together import Together
from echobuf.errors import OptionError, UpstreamError

_FEWEST = 8  # items of an epoch that is over within a second
_SHORT_S = 1.0
_WINDOW_BATCHES = 32


class Run:
    """One analysis.

    Args:
        source: upstream.
        step: the caller's.
        budget: the time.
        clock: seconds.
        timeout: seconds to wait for one item.
        window: that predictions are for; None: the usual one.
    """

    def __init__(
        self,
        source: Source,
        step: Step,
        budget: Budget,
        clock: Clock,
        timeout: float,
        window: int | None,
    ) -> None:
        self._window = window
        self._source = source
        self._step = step
        self._budget = budget
        self._clock = clock
        self._reader = Reader(source, clock, timeout)
        self._together = Together(source, step, clock, timeout)
        self._first = Reading(self._reader.group)
        self._second: Reading | None = None
        self._random = RandomState(source.upstream)
        self._notes = list(notes.about_load())
        self._step_s = Reading()
        self._counted: int | None = None  # examples of a whole epoch

    def measure(self, max_factor: int, device: str) -> Measurements:
        """Goes through all phases."""
        source = self._source
        workers = Workers(source.data_loader)
        try:
            first = self._one_epoch() if source.one_shot else self._epochs()
            loader = None
            if source.parts is not None:
                self._random.restore()
                phase = self._budget.begin("parts of the DataLoader")
                loader = self._parts(phase)
        finally:
            workers.end()
            source.end()
            self._random.restore()
        self._notes += notes.about_source(source, self._counted)
        self._notes += notes.about_step(self._step)
        self._notes += notes.about_spread("upstream", self._second or self._first)
        self._notes += notes.about_spread("the step", self._step_s)
        length = source.length(self._counted)
        together = self._together
        return Measurements(
            spec=source.spec,
            batch_size=source.batch_size,
            step_s=self._step_s.estimate(),
            upstream_first_s=self._first.estimate(),
            upstream_second_s=_maybe(self._second),
            together_s=together.reading.estimate(),
            wait_s=together.waits.estimate(),
            length=length,
            window=self._window or _usual_window(source.batch_size, length),
            max_factor=max_factor,
            device=device,
            loader=loader,
            one_shot=source.one_shot,
            seconds=self._budget.elapsed_s,
            notes=tuple(self._notes),
            item=source.item,
            startup_s=first.startup_s,
        )

    def _parts(self, phase: Phase) -> LoaderParts | None:
        assert self._source.parts is not None
        loader, of = self._source.parts
        try:
            return measure_parts(loader, phase, self._clock, of)
        except UpstreamError as error:  # some data sets work in workers only
            self._notes.append(f"The parts of the DataLoader cannot be told: {error}")
        return None

    # ---- an upstream that can be iterated again

    def _epochs(self) -> Pass:
        source = self._source
        phase = self._budget.begin("upstream, first pass")

        def is_over(done: Pass) -> bool:
            enough = done.items >= _FEWEST or done.seconds >= _SHORT_S
            return enough and source.has_batch and phase.is_over(self._first)

        first = self._reader.read(self._first, is_over, keep=True)
        took_s = phase.elapsed_s
        self._check_first(first)
        self._measure_step()
        second = self._second_pass(first, took_s)
        self._random.restore()
        phase = self._budget.begin("together")
        reading = self._together.reading
        while not phase.is_over(reading):
            if not self._together.run(lambda: phase.is_over(reading)):
                raise gives_no_more(source.upstream)
        self._notes += notes.about_passes(first, second)
        return first

    def _check_first(self, first: Pass) -> None:
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
        _check_fills(source, first.examples)
        self._counted = first.examples

    def _second_pass(self, first: Pass, took_s: float) -> Pass:
        """The same items again, as often as it takes; cut if it is far slower."""
        phase = self._budget.begin("upstream, second pass")
        reading = self._second = Reading(self._reader.group)
        longest_s = max(2 * took_s, phase.allowed_s)

        def is_over(done: Pass) -> bool:
            whole = not first.ended and done.items >= first.items
            return whole or phase.elapsed_s > longest_s

        second = None
        while second is None or not phase.is_over(reading):
            self._random.restore()
            done = self._reader.read(reading, is_over)
            if not done.items:
                raise gives_no_more(self._source.upstream)
            second = second or done
        return second

    # ---- one that gives one epoch

    def _one_epoch(self) -> Pass:
        source, together = self._source, self._together
        self._budget.begin("upstream, first pass")
        turns = Turns(self._reader, source.begin(), self._first)
        turns.begin()
        if not turns.alone.examples:
            raise UpstreamError(
                "`upstream` yields nothing; pass one that has not been used."
            )
        if turns.alone.ended:
            check_long_enough(turns.alone, self._first, together, math.inf)
        self._measure_step()
        phase = self._budget.begin("together")
        turns.take(together, phase)
        check_long_enough(turns.alone, self._first, together, _SHORT_S)
        if turns.alone.ended:
            self._counted = turns.alone.examples + together.served
        return turns.alone

    def _measure_step(self) -> None:
        self._check_window()
        phase = self._budget.begin("step")
        batch, size = self._source.resident(), self._source.batch_size
        self._step_s = self._step.measure(batch, size, phase)

    def _check_window(self) -> None:
        source = self._source
        if self._window is None:
            return
        if self._window < source.batch_size:
            raise OptionError(
                f"`window` is {self._window}; it must be at least the batch size, "
                f"which is {source.batch_size}."
            )
        size = {"batch_size": source.batch_size, "window": self._window}
        buffer_memory(source.spec, **size, factor=1, device=source.device)


def _check_fills(source: Source, examples: int) -> None:
    if examples < source.batch_size:
        raise OptionError(
            f"`batch_size` is {source.batch_size}, but an epoch of `upstream` has "
            f"{examples} examples; make it smaller."
        )


def _usual_window(batch_size: int, length: int | None) -> int:
    batches = _WINDOW_BATCHES
    if length is not None:
        batches = min(batches, max(1, length // batch_size))
    return batches * batch_size


def _maybe(reading: Reading | None) -> Estimate | None:
    return None if reading is None else reading.estimate()
