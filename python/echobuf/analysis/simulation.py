"""Time of a simulated epoch, pass by pass: filling and draining the window included.

The native schedules make the passes; upstream and downstream take their mean times. A
batch is drawn when the step before it is done and all records of its passes are
resident; the slots that a pass has used up are free from the draw of its last batch on.
So the times of all batches follow from the times at which passes begin.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean

from echobuf import _core
from echobuf.analysis import cost_model


@dataclass(frozen=True)
class Pipeline:
    """Upstream, buffer and training step, with their mean times.

    Attributes:
        upstream_s: t_upstream, seconds per fresh example.
        step_s: t_downstream, seconds per example of a batch.
        batch_size: examples of a batch.
        window: of the buffer, in examples.
        max_factor: the largest factor of "auto".
        item: examples that upstream yields at a time.
        startup_s: seconds that the first item takes beyond the time of its examples.
    """

    upstream_s: float
    step_s: float
    batch_size: int
    window: int
    max_factor: int = 8
    item: int = 1
    startup_s: float = 0.0


@dataclass(frozen=True)
class SimulatedEpoch:
    """Seconds to the end of the last step of an epoch, and the examples served."""

    seconds: float
    draws: float


PHASES = 10  # most phases of a fractional factor; the result is their mean
LONGEST = 64  # most windows to simulate; longer epochs are extrapolated linearly
_PASSES = 8_000  # approximate limit on the passes to simulate
_AUTO_PASSES = 16  # passes of "auto" by window and echo: one a segment


def simulate(pipeline: Pipeline, factor: Fraction | None, count: int) -> SimulatedEpoch:
    """Simulate an epoch of `count` fresh examples; a factor of None is "auto".

    Of long epochs only the first windows are simulated; each further example takes the
    mean time of the examples in the later half of these windows.
    """
    upstream_s, step_s = pipeline.upstream_s, pipeline.step_s
    if factor is not None:
        echoes, passes = float(factor), 1
    else:
        ratio = upstream_s / step_s if step_s > 0 else math.inf
        echoes = cost_model.effective_factor(ratio, pipeline.max_factor)
        passes = _AUTO_PASSES
    windows = int(_PASSES / (echoes * passes))
    if windows < 2:  # filling and draining are negligible beside so many passes
        seconds = count * cost_model.fresh_s(upstream_s, step_s, echoes)
        return SimulatedEpoch(pipeline.startup_s + seconds, count * echoes)
    windows = min(LONGEST, windows)
    longest = windows * pipeline.window + count % pipeline.window
    if count <= longest:
        return _run(pipeline, factor, count)
    half = longest - windows // 2 * pipeline.window
    upper, lower = (_run(pipeline, factor, n) for n in (longest, half))
    more = (count - longest) / (longest - half)
    return SimulatedEpoch(
        upper.seconds + more * (upper.seconds - lower.seconds),
        upper.draws + more * (upper.draws - lower.draws),
    )


def _run(pipeline: Pipeline, factor: Fraction | None, count: int) -> SimulatedEpoch:
    """Simulate a whole epoch; the mean over epochs with other examples echoed more."""
    if factor is None:
        return _auto(pipeline, count)
    runs = [_fixed(pipeline, factor, count, phase) for phase in phases(factor)]
    return SimulatedEpoch(
        fmean(run.seconds for run in runs), fmean(run.draws for run in runs)
    )


def phases(factor: Fraction) -> list[int]:
    """Return a sample of the schedule's phases, which differ between epochs."""
    den = factor.denominator
    number = min(den, PHASES)
    return [(2 * i + 1) * den // (2 * number) for i in range(number)]


def _fixed(
    pipeline: Pipeline, factor: Fraction, count: int, phase: int
) -> SimulatedEpoch:
    ratio = factor.as_integer_ratio()
    passes = _core.fixed_passes(pipeline.window, *ratio, count, phase)
    capacity = _core.fixed_capacity(pipeline.window, *ratio)
    arrivals, steps = Arrivals(pipeline, count, capacity), StepTimes(pipeline)
    used: deque[tuple[int, int]] = deque()  # last batch of a pass, oldest record after
    for first, length in passes:
        batch = steps.next_batch()
        if steps.drawn:
            used.append(((steps.drawn - 1) // pipeline.batch_size, first))
        while used and used[0][0] < batch:
            last, oldest = used.popleft()
            arrivals.give_room(oldest + capacity, steps.begin(last))
        steps.draw(length, arrivals.time(first + length - 1))
    return SimulatedEpoch(steps.end(), steps.drawn)


def _auto(pipeline: Pipeline, count: int) -> SimulatedEpoch:
    passes, steps = AutoPasses(pipeline, count), StepTimes(pipeline)
    while passes.next_pass(steps.begin(steps.next_batch())):
        steps.draw(passes.length(), passes.time_s)
    return SimulatedEpoch(steps.end(), steps.drawn)


class Arrivals:
    """Arrival times of `count` examples; upstream waits while the ring is full.

    Methods must be called in the order of time. `capacity` is the slots of the ring.
    """

    def __init__(self, pipeline: Pipeline, count: int, capacity: int) -> None:
        self._count = count
        self._item = pipeline.item
        self._example_s = pipeline.upstream_s
        self._items = 0  # items of which all examples are put
        self._put_s = pipeline.startup_s  # time of the last of these puts
        # (limit, time): examples below `limit` may be put from `time` on.
        self._room: deque[tuple[int, float]] = deque([(capacity, 0.0)])

    def give_room(self, limit: int, time_s: float) -> None:
        """Let examples below `limit` be put from `time_s` on."""
        self._room.append((limit, time_s))

    def time(self, example: int) -> float:
        """Return the time from which `example` is in the ring."""
        items, item_s = example // self._item, self._item * self._example_s
        while self._items < items:
            limit, since = self._room_for(self._first() + self._item - 1)
            # The first may have waited for room; those that fit beside it do not.
            run = max(1, min(items, limit // self._item) - self._items)
            self._put_s = max(self._put_s + item_s, since) + (run - 1) * item_s
            self._items += run
        return max(self._made_s(), self._room_for(example)[1])

    def number(self, time_s: float) -> int:
        """Return the number of examples put until `time_s`."""
        while self._first() < self._count and self._done_s() <= time_s:
            self._put_s = self._done_s()
            self._items += 1
            self._put_until(time_s)
        if self._made_s() > time_s:
            return min(self._first(), self._count)
        return min(self._room[-1][0], self._count)

    def is_held_back(self, time_s: float) -> bool:
        """Return whether upstream waits for room at `time_s`; call `number` before."""
        return self._first() < self._count and self._made_s() <= time_s

    def _put_until(self, time_s: float) -> None:
        """Put the whole items that need not wait for room."""
        item_s = self._item * self._example_s
        limit = min(self._room[0][0], self._count)
        more = max(0, limit // self._item - self._items)
        if item_s > 0:
            more = int(min(more, (time_s - self._put_s) / item_s))
        self._put_s += more * item_s
        self._items += more

    def _first(self) -> int:
        """Return the first example of upstream's current item."""
        return self._items * self._item

    def _made_s(self) -> float:
        """Return the time at which upstream has made its current item."""
        length = min(self._item, self._count - self._first())
        return self._put_s + length * self._example_s

    def _done_s(self) -> float:
        """Return the time at which all of the current item is put."""
        last = min(self._first() + self._item, self._count) - 1
        return max(self._made_s(), self._room_for(last)[1])

    def _room_for(self, example: int) -> tuple[int, float]:
        """Return the (limit, time) that admits an example; time is infinite if none."""
        while len(self._room) > 1 and self._room[0][0] <= example:
            self._room.popleft()
        return self._room[0] if self._room[0][0] > example else (example, math.inf)


class StepTimes:
    """Start times of training steps, counted from the last step that had to wait."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._size = pipeline.batch_size
        self._batch_s = pipeline.batch_size * pipeline.step_s
        self.drawn = 0  # examples
        self._batch = 0  # the last one that had to wait
        self._begin = 0.0

    def next_batch(self) -> int:
        """Return the number of the batch of the next draw."""
        return self.drawn // self._size

    def begin(self, batch: int) -> float:
        """Return the start time of a batch that waits for the steps before it only."""
        return self._begin + (batch - self._batch) * self._batch_s

    def draw(self, length: int, there_s: float) -> None:
        """Draw a pass whose records are all resident from `there_s` on."""
        batch = self.next_batch()
        self._begin = max(self.begin(batch), there_s)
        self._batch = batch
        self.drawn += length

    def end(self) -> float:
        """Return the end time of the last step, whose batch may be shorter."""
        left = self.drawn - self._batch * self._size
        return self._begin + left / self._size * self._batch_s


class AutoPasses:
    """Passes of factor "auto", which depend on the arrivals at the end of each pass."""

    def __init__(self, pipeline: Pipeline, count: int) -> None:
        self._schedule = _core.AutoSchedule(
            pipeline.window, pipeline.batch_size, pipeline.max_factor
        )
        self._arrivals = Arrivals(pipeline, count, self._schedule.capacity)
        self._count = count
        self._arrived = 0  # examples at `time_s`
        self._held_back = False
        self.time_s = -1.0  # of the last decision

    def next_pass(self, time_s: float) -> bool:
        """Begin a pass when earlier ones end at `time_s`; False after the last."""
        if time_s != self.time_s:  # else another pass of the same batch
            self._look(time_s)
        schedule = self._schedule
        while (answer := self._ask()) == "wait":
            filled = schedule.hi
            while schedule.start(filled + 1) <= self._arrived:
                filled += 1
            self._give_room()
            needed = min(schedule.start(filled + 1), self._count)
            self._look(self._arrivals.time(needed - 1))
        self._give_room()
        return answer == "pass"

    def length(self) -> int:
        """Return the records of the pass."""
        start = self._schedule.start
        return min(start(self._schedule.hi), self._count) - start(self._schedule.lo)

    def _ask(self) -> str:
        return self._schedule.advance(
            self._arrived,
            held_back=self._held_back,
            ended=self._arrived == self._count,
        )

    def _look(self, time_s: float) -> None:
        """Update the state of upstream to `time_s`."""
        self.time_s = time_s
        self._arrived = self._arrivals.number(time_s)
        self._held_back = self._arrivals.is_held_back(time_s)

    def _give_room(self) -> None:
        schedule = self._schedule
        limit = schedule.start(schedule.lo) + schedule.capacity
        self._arrivals.give_room(limit, self.time_s)
