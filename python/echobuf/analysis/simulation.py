"""Time of a simulated epoch, pass by pass: filling and draining the window included.

The passes are those of the native schedules; upstream and downstream take their mean
times. A batch is drawn when the step before it is done and all records of its passes
are resident; the slots that a pass has used up are free from the draw of its last batch
on. So the times of all batches follow from the times at which passes begin.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from fractions import Fraction

from echobuf import _core
from echobuf.analysis import formulas


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
    """Totals of a simulated epoch.

    Attributes:
        seconds: from its beginning to the end of its last step.
        draws: examples served.
    """

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
    run = _auto if factor is None else _fixed
    echoes = _echoes(pipeline, factor)
    windows = int(_PASSES / (echoes * (_AUTO_PASSES if factor is None else 1)))
    if windows < 2:  # filling and draining are negligible beside so many passes
        fresh_s = formulas.fresh_s(pipeline.upstream_s, pipeline.step_s, echoes)
        return SimulatedEpoch(pipeline.startup_s + count * fresh_s, count * echoes)
    windows = min(LONGEST, windows)
    longest = windows * pipeline.window + count % pipeline.window
    if count <= longest:
        return run(pipeline, factor, count)
    half = longest - windows // 2 * pipeline.window
    upper, lower = (run(pipeline, factor, n) for n in (longest, half))
    more = (count - longest) / (longest - half)
    return SimulatedEpoch(
        upper.seconds + more * (upper.seconds - lower.seconds),
        upper.draws + more * (upper.draws - lower.draws),
    )


def _echoes(pipeline: Pipeline, factor: Fraction | None) -> float:
    if factor is not None:
        return float(factor)
    ratio = pipeline.upstream_s / pipeline.step_s if pipeline.step_s > 0 else math.inf
    return formulas.effective_factor(ratio, pipeline.max_factor)


def phases(factor: Fraction) -> list[int]:
    """Return a sample of the schedule's phases, which differ between epochs."""
    den = factor.denominator
    number = min(den, PHASES)
    return [(2 * i + 1) * den // (2 * number) for i in range(number)]


def _fixed(pipeline: Pipeline, factor: Fraction | None, count: int) -> SimulatedEpoch:
    """Return the mean over epochs, which give extra uses to different examples."""
    assert factor is not None
    runs = [_fixed_phase(pipeline, factor, count, phase) for phase in phases(factor)]
    return SimulatedEpoch(
        sum(run.seconds for run in runs) / len(runs),
        sum(run.draws for run in runs) / len(runs),
    )


def _fixed_phase(
    pipeline: Pipeline, factor: Fraction, count: int, phase: int
) -> SimulatedEpoch:
    ratio = factor.as_integer_ratio()
    passes = _core.fixed_passes(pipeline.window, *ratio, count, phase)
    capacity = _core.fixed_capacity(pipeline.window, *ratio)
    arrivals = _arrivals(pipeline, count, capacity)
    step_times = StepTimes(pipeline.batch_size, pipeline.step_s)
    used: deque[tuple[int, int]] = deque()  # last batch of a pass, oldest record after
    for first, length in passes:
        batch = step_times.next_batch()
        if step_times.drawn:
            used.append((step_times.last_batch(), first))
        while used and used[0][0] < batch:
            last, oldest = used.popleft()
            arrivals.give_room(oldest + capacity, step_times.begin(last))
        step_times.draw(length, arrivals.time(first + length - 1))
    return SimulatedEpoch(step_times.end(), step_times.drawn)


def _auto(pipeline: Pipeline, factor: Fraction | None, count: int) -> SimulatedEpoch:
    schedule = _core.AutoSchedule(
        pipeline.window, pipeline.batch_size, pipeline.max_factor
    )
    arrivals = _arrivals(pipeline, count, schedule.capacity)
    step_times = StepTimes(pipeline.batch_size, pipeline.step_s)
    passes = AutoPasses(schedule, arrivals, count)
    while passes.next_pass(step_times.begin(step_times.next_batch())):
        step_times.draw(passes.length(), passes.time_s)
    return SimulatedEpoch(step_times.end(), step_times.drawn)


def _arrivals(pipeline: Pipeline, count: int, capacity: int) -> Arrivals:
    return Arrivals(
        count, pipeline.item, pipeline.upstream_s, capacity, pipeline.startup_s
    )


class Arrivals:
    """Arrival times of examples, from an upstream that waits while the ring is full.

    Methods must be called in the order of time.

    Args:
        count: examples in all.
        item: examples that upstream yields at a time.
        example_s: t_upstream, seconds per example.
        capacity: slots of the ring.
        begin_s: time at which upstream begins with the first item.
    """

    def __init__(
        self,
        count: int,
        item: int,
        example_s: float,
        capacity: int,
        begin_s: float = 0.0,
    ) -> None:
        self._count = count
        self._item = item
        self._example_s = example_s
        self._items = 0  # items of which all examples are put
        self._put_s = begin_s  # time of the last of these puts
        # (limit, time): examples below `limit` may be put from `time` on.
        self._room: deque[tuple[int, float]] = deque([(capacity, 0.0)])

    def give_room(self, limit: int, time_s: float) -> None:
        """Let examples below `limit` be put from `time_s` on."""
        self._room.append((limit, time_s))

    def time(self, example: int) -> float:
        """Return the time from which `example` is in the ring."""
        self._advance(example // self._item)
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

    def _advance(self, items: int) -> None:
        """Put all items before number `items`."""
        item_s = self._item * self._example_s
        while self._items < items:
            limit, since = self._room_for(self._first() + self._item - 1)
            # The first may have waited for room; those that fit beside it do not.
            run = max(1, min(items, limit // self._item) - self._items)
            self._put_s = max(self._put_s + item_s, since) + (run - 1) * item_s
            self._items += run

    def _room_for(self, example: int) -> tuple[int, float]:
        """Return the (limit, time) that admits an example; time is infinite if none."""
        while len(self._room) > 1 and self._room[0][0] <= example:
            self._room.popleft()
        return self._room[0] if self._room[0][0] > example else (example, math.inf)


class StepTimes:
    """Start times of training steps, counted from the last step that had to wait.

    Args:
        batch_size: examples of a batch.
        example_s: t_downstream, seconds per example of a batch.

    Attributes:
        drawn: examples drawn so far.
    """

    def __init__(self, batch_size: int, example_s: float) -> None:
        self._size = batch_size
        self._batch_s = batch_size * example_s
        self.drawn = 0  # examples
        self._batch = 0
        self._begin = 0.0

    def next_batch(self) -> int:
        """Return the number of the batch of the next draw."""
        return self.drawn // self._size

    def last_batch(self) -> int:
        """Return the number of the batch of the last draw."""
        return (self.drawn - 1) // self._size

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
    """Passes of factor "auto", which depend on the arrivals at the end of each pass.

    Args:
        schedule: the native schedule.
        arrivals: upstream.
        count: fresh examples in all.

    Attributes:
        time_s: time of the last decision.
    """

    def __init__(
        self, schedule: _core.AutoSchedule, arrivals: Arrivals, count: int
    ) -> None:
        self._schedule = schedule
        self._arrivals = arrivals
        self._count = count
        self._arrived = 0  # examples at `time_s`
        self._held_back = False
        self.time_s = -1.0  # of the last decision

    def next_pass(self, time_s: float) -> bool:
        """Begin a pass when earlier ones end at `time_s`; False after the last."""
        if time_s != self.time_s:  # else another pass of the same batch
            self._look(time_s)
        while (answer := self._ask()) == "wait":
            needed = self._schedule.start(self._filled() + 1)
            self._give_room()
            self._look(self._arrivals.time(min(needed, self._count) - 1))
        self._give_room()
        return answer == "pass"

    def length(self) -> int:
        """Record of the pass."""
        schedule = self._schedule
        return min(schedule.start(schedule.hi), self._count) - schedule.start(
            schedule.lo
        )

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

    def _filled(self) -> int:
        """Return the number of filled segments."""
        filled = self._schedule.hi
        while self._schedule.start(filled + 1) <= self._arrived:
            filled += 1
        return filled

    def _give_room(self) -> None:
        schedule = self._schedule
        limit = schedule.start(schedule.lo) + schedule.capacity
        self._arrivals.give_room(limit, self.time_s)
