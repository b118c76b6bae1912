"""A slow model of a whole buffer: one producer, a fixed factor, calls in any order.

It says what each call must come to once all threads have done what they can. It uses
the reference of the schedule, and shares nothing with the native code.
"""

import functools
import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from helpers import keyed, on_device
from schedule_reference import (
    epoch_phase,
    fixed_capacity,
    fixed_passes,
    fresh_offset,
    ratio,
)
from schedule_reference import segments as segments_of


@functools.lru_cache(maxsize=4096)
def _shuffled(seed: int, epoch: int, number: int, count: int) -> list[int]:
    return keyed(seed, epoch)(number, count)


@dataclass
class Model:
    """An epoch of a buffer made with `kwargs`.

    Attributes:
        offered: ids of the records put, in order, those of a waiting put included.
        accepted: how many of them are in the ring, or have been.
        drawn: draws taken, batches assembled ahead included.
        ahead: the batches assembled ahead.
        required: records that a loaded state demands before it goes on.
        total: the length of upstream, where a loaded state knows it.
        begun: passes that had begun when a loaded state was taken.
        cut_off: upstream failed before it was closed, so where it ends is not known.
    """

    kwargs: dict[str, Any]
    epoch: int = 0
    offered: list[int] = field(default_factory=list)
    accepted: int = 0
    drawn: int = 0
    ahead: list[list[int]] = field(default_factory=list)
    closed: bool = False
    failed: BaseException | None = None
    cut_off: bool = False
    required: int = 0
    total: int | None = None
    begun: int = 0

    def __post_init__(self) -> None:
        self.factor = ratio(self.kwargs["factor"])
        self.window = self.kwargs["window"]
        self.capacity = fixed_capacity(self.window, self.factor)
        if on_device():  # the window, one segment, and as much in staging
            self.kwargs = {**self.kwargs, "prefetch": 0}  # it does nothing there
            self.capacity = self.window + 2 * math.ceil(
                Fraction(self.window, math.ceil(self.factor))
            )

    # ---- the schedule

    def _whole(self, n: int) -> list[list[int]]:
        """The windows of all passes over an upstream of n examples."""
        phase = epoch_phase(self.factor, self.kwargs["seed"], self.epoch)
        return fixed_passes(self.window, self.factor, n, phase)

    def passes(self) -> list[list[int]]:
        """The windows of all passes that may begin by now."""
        if self.closed:
            return self._whole(self.accepted)
        dealt = segments_of(self.window, self.factor, self.accepted + self.window)
        full = sum(segment[-1] < self.accepted for segment in dealt)
        if full < self.begun:  # a state of an upstream that had ended goes on in it
            return self.history()[: self.begun]
        whole = self._whole(self.accepted + self.window)
        return whole[:full]

    def history(self) -> list[list[int]]:
        """The passes that what was drawn came from, for a loaded state as well."""
        if self.total is None:
            return self.passes()
        return self._whole(self.total)

    def stream(self) -> list[int]:
        """The ids of all draws that are sure by now."""
        return [
            self.offered[window[record]]
            for number, window in enumerate(self.passes())
            for record in _shuffled(
                self.kwargs["seed"], self.epoch, number, len(window)
            )
        ]

    def oldest(self, drawn: int) -> int:
        """The oldest record still needed after so many draws."""
        if self.closed or self.total is not None:
            offset = fresh_offset(self.history(), drawn)
            return self.accepted if offset is None else offset
        longer = self.accepted + 2 * self.window + 2
        offset = fresh_offset(self._whole(longer), drawn)
        assert offset is not None
        return offset

    def resident_end(self, drawn: int) -> int:
        """Return where the window of the last draw's pass ends."""
        for window in self.history():
            if drawn <= len(window):
                return window[-1] + 1
            drawn -= len(window)
        raise AssertionError(drawn)

    # ---- what the calls come to

    @property
    def handed(self) -> int:
        """Draws in the batches handed out."""
        return self.drawn - sum(map(len, self.ahead))

    def room(self, drawn: int) -> int:
        """How many records fit now."""
        return self.oldest(drawn) + self.capacity - self.accepted

    def short(self) -> bool:
        """Upstream has ended before what a loaded state demands."""
        if not self.closed:
            return False
        return self.accepted < self.required or self.total not in (None, self.accepted)

    def _batch(self) -> list[int] | None:
        """The next batch, if it is sure; empty: everything has been served."""
        if self.accepted < self.required or self.short():
            return None
        size = self.kwargs["batch_size"]
        batch = self.stream()[self.drawn : self.drawn + size]
        if len(batch) == size:
            return batch
        if not self.closed:
            return None
        return [] if self.kwargs["drop_last"] else batch

    def settle(self, waiting: int) -> list[list[int]]:
        """Lets all threads do what they can; the batches that `waiting` calls get."""
        got: list[list[int]] = []
        before = None
        while before != (self.accepted, self.drawn, len(got)):
            before = (self.accepted, self.drawn, len(got))
            if not self.closed:
                space = self.accepted + max(0, self.room(self.drawn))
                self.accepted = min(len(self.offered), space)
            if len(self.ahead) < max(1, self.kwargs["prefetch"]):
                self._draw(wanted=len(got) < waiting)
            if self.ahead and len(got) < waiting and not self.failed:
                got.append(self.ahead.pop(0))
        return got

    def _draw(self, *, wanted: bool) -> None:
        if not self.failed and (self.kwargs["prefetch"] or wanted):
            batch = self._batch()
            if batch:
                self.ahead.append(batch)
                self.drawn += len(batch)

    def ended(self) -> bool:
        """Nothing is left to hand out, and nothing will come."""
        return self.closed and not self.ahead and not self._batch()

    def ready(self) -> bool:
        """Return True if `next_batch` would return or raise at once."""
        return bool(self.failed or self.ahead or self.ended() or self._batch())

    def epoch_done(self) -> bool:
        """A state taken now is the start of the next epoch."""
        ended = self.closed or self.accepted == self.total
        if not ended or self.cut_off or self.short():
            return False
        left = sum(map(len, self.history())) - self.handed
        return not left or (
            self.kwargs["drop_last"] and left < self.kwargs["batch_size"]
        )

    # ---- other epochs

    def end(self, *, failed: BaseException | None = None) -> int:
        """After `close` or `fail`: how many records were put in all."""
        self.cut_off = self.cut_off or (not self.closed and failed is not None)
        self.closed = True
        self.failed = failed or self.failed
        del self.offered[self.accepted :]
        return self.accepted

    def begin(self, epoch: int | None) -> None:
        """After `reset`."""
        self.__init__(  # type: ignore[misc]
            self.kwargs, self.epoch + 1 if epoch is None else epoch
        )

    def resumed(self, kwargs: dict[str, Any]) -> tuple["Model", list[int]]:
        """After loading a state taken now: the model, and the ids to put again."""
        if self.epoch_done():
            return Model(kwargs, self.epoch + 1), []
        drawn = self.handed
        first = self.oldest(drawn) if drawn else 0
        model = Model(kwargs, self.epoch, self.offered[:first], first, drawn)
        if drawn:
            model.required = self.resident_end(drawn)
            ended = self.closed and not self.cut_off
            model.total = self.accepted if ended else self.total
            ends = itertools.accumulate(map(len, self.history()))
            model.begun = 1 + sum(end < drawn for end in ends)
        return model, self.offered[first : self.accepted]
