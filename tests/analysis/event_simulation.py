"""A slow simulation of producer, buffer and consumer, event by event.

Passes are those of the slow reference of the order; times are given example by example.
Where both sides act at the same time, the producer does first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from schedule_reference import Auto, fixed_capacity, fixed_passes

WAIT = -1


@dataclass
class FixedWindow:
    """Batches of a fixed factor: drawn whole, once all of their passes are filled."""

    window: int
    factor: Fraction
    batch: int
    count: int
    phase: int = 0

    def __post_init__(self) -> None:
        self.capacity = fixed_capacity(self.window, self.factor)
        self.limit = self.capacity
        passes = fixed_passes(self.window, self.factor, self.count, self.phase)
        self.draws = [(each[0], each[-1]) for each in passes for _ in each]
        self.at = 0

    def take(self, there: int, *, blocked: bool, ended: bool) -> int:
        """The length of the batch drawn now; 0 at the end, or WAIT."""
        batch = self.draws[self.at : self.at + self.batch]
        if batch and batch[-1][1] >= there:
            return WAIT
        self.at += len(batch)
        if self.at < len(self.draws):
            self.limit = self.draws[self.at][0] + self.capacity
        return len(batch)


@dataclass
class AutoWindow:
    """Batches of factor "auto", drawn in parts."""

    window: int
    max_factor: int
    batch: int
    count: int
    partial: int = 0
    left: int = 0

    def __post_init__(self) -> None:
        self.auto = Auto(self.window, self.batch, self.max_factor)
        self.limit = self.auto.capacity

    def take(self, there: int, *, blocked: bool, ended: bool) -> int:
        """The length of the batch drawn now; 0 at the end, or WAIT."""
        while self.partial < self.batch:
            if self.left == 0:
                answer = self._advance(there, blocked=blocked, ended=ended)
                if answer == "wait":
                    return WAIT
                if answer == "finished":
                    break
            part = min(self.left, self.batch - self.partial)
            self.left -= part
            self.partial += part
        taken, self.partial = self.partial, 0
        return taken

    def _advance(self, there: int, *, blocked: bool, ended: bool) -> str:
        auto = self.auto
        answer = auto.advance(there, held_back=blocked, ended=ended)
        self.limit = auto.start(auto.lo) + auto.capacity
        if answer == "pass":
            self.left = min(auto.start(auto.hi), self.count) - auto.start(auto.lo)
        return answer


@dataclass
class Producer:
    """Makes items, and puts their examples as far as there is room."""

    times: Sequence[float]
    item: int
    startup_s: float
    there: int = 0
    made: int = 0
    ready_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._begin(self.startup_s)

    def _begin(self, now: float) -> None:
        item = self.times[self.made : self.made + self.item]
        self.ready_s = now + sum(item) if item else math.inf
        self.begun = self.made + len(item)

    def act(self, now: float, limit: int) -> None:
        """Puts what it can at `now`."""
        while self.ready_s <= now:
            self.made = self.begun
            self.there = min(self.made, max(self.there, limit))
            if self.there < self.made:
                return
            self._begin(now)

    def is_blocked(self, now: float) -> bool:
        return self.ready_s <= now and self.there < self.made

    @property
    def ended(self) -> bool:
        return self.there == len(self.times)


def simulate(
    window: FixedWindow | AutoWindow,
    upstream_s: Sequence[float],
    step_s: float,
    item: int = 1,
    startup_s: float = 0.0,
) -> tuple[float, int]:
    """Seconds until the last step is done, and the draws.

    Args:
        window: what is between the two.
        upstream_s: the time of each fresh example.
        step_s: that of a step, by example of its batch.
        item: examples that upstream yields at a time.
        startup_s: seconds before it makes the first of them.
    """
    producer = Producer(upstream_s, item, startup_s)
    now = 0.0
    drawn = 0
    while True:
        taken = _take(window, producer, now)
        if taken == 0:
            return now, drawn
        if taken == WAIT:
            now = producer.ready_s
        else:
            drawn += taken
            now = _work(window, producer, now, now + taken * step_s)


def _take(window: FixedWindow | AutoWindow, producer: Producer, now: float) -> int:
    """Lets both act at `now`, until a batch is drawn or there is nothing to do."""
    stand = None
    taken = WAIT
    while taken == WAIT and stand != (producer.there, producer.made, window.limit):
        stand = (producer.there, producer.made, window.limit)
        producer.act(now, window.limit)
        blocked = producer.is_blocked(now)
        taken = window.take(producer.there, blocked=blocked, ended=producer.ended)
    return taken


def _work(
    window: FixedWindow | AutoWindow, producer: Producer, now: float, until: float
) -> float:
    """Lets the producer act while a step lasts."""
    producer.act(now, window.limit)
    while producer.ready_s <= until and not producer.is_blocked(now):
        now = producer.ready_s
        producer.act(now, window.limit)
    return until
