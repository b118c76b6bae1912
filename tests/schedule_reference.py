"""A slow, obviously right reference of the pass schedule: it simulates.

Segments are lists of example numbers, uses are counted one by one, ratios are
`Fraction`s. Nothing here is shared with the native code.
"""

import functools
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, repeat

from permutation_reference import philox4x32

Order = Callable[[int, int], Sequence[int]]
"""(number of the pass, records in its window) -> the shuffled record numbers."""


def ratio(factor: float | Fraction) -> Fraction:
    """The exact ratio that a factor stands for."""
    return Fraction(factor).limit_denominator(1_000_000)


_STEPS = {2: 1, 3: 2, 4: 3, 5: 3, 6: 5, 7: 4, 8: 5, 9: 5, 10: 7}
_GOLDEN = 0x9E3779B97F4A7C15


@functools.lru_cache(maxsize=1024)
def _start(seed: int) -> Fraction:
    """The place of a seed in [0, 1) from which the phases of its epochs go on."""
    low, high, *_ = philox4x32((0, 0, 0, 0xC0 * 2**24), (seed % 2**32, seed // 2**32))
    return Fraction(high * 2**32 + low, 2**64)


def epoch_phase(factor: Fraction, seed: int, epoch: int) -> int:
    """Which segments of an epoch live longer, as a number below the denominator."""
    den = factor.denominator
    if den == 1:
        return 0
    if den in _STEPS:
        return (math.floor(_start(seed) * den) + epoch * _STEPS[den]) % den
    place = _start(seed) + Fraction(epoch * _GOLDEN, 2**64)
    return math.floor((place - math.floor(place)) * den)


def shares(step: Fraction, credit: Fraction = Fraction(0)) -> Iterable[int]:
    """Whole parts that add up to `step` a turn: what is left over is carried on."""
    while True:
        credit += step
        whole = math.floor(credit)
        credit -= whole
        yield whole


def segment_sizes(window: int, factor: Fraction) -> Iterable[int]:
    """How many records segment 0, 1, 2, ... of a fixed factor has."""
    per_window = math.ceil(factor)
    if factor.denominator == 1:
        return shares(Fraction(window, per_window))
    return repeat(window // per_window)


def segments(window: int, factor: Fraction, n: int) -> list[list[int]]:
    """The examples 0..n-1 dealt into segments; the last one may be partial."""
    fresh = iter(range(n))
    dealt = []
    for size in segment_sizes(window, factor):
        segment = list(islice(fresh, size))
        if not segment:
            break
        dealt.append(segment)
    return dealt


def fixed_passes(
    window: int, factor: Fraction, n: int, phase: int = 0
) -> list[list[int]]:
    """The window of every pass, in fresh order, for an upstream of n examples."""
    return passes_of(segments(window, factor, n), factor, phase)


def passes_of(
    dealt: Iterable[list[int]], factor: Fraction, phase: int = 0
) -> list[list[int]]:
    """The window of every pass over these segments."""
    waiting = deque(dealt)
    lifetimes = iter(shares(factor, Fraction(phase, factor.denominator)))
    live: list[tuple[int, list[int]]] = []
    passes = []
    while waiting or live:
        if waiting:
            live.append((next(lifetimes), waiting.popleft()))
        passes.append([example for _, segment in live for example in segment])
        live = [(left - 1, segment) for left, segment in live if left > 1]
    return passes


def draws(passes: Iterable[Sequence[int]], order: Order) -> list[int]:
    """The examples in the order in which they are served."""
    return [
        window[record]
        for number, window in enumerate(passes)
        for record in order(number, len(window))
    ]


def draw_infos(stream: Iterable[int]) -> list[tuple[int, int]]:
    """Of each draw its example, and how many draws of that came before it."""
    seen: Counter[int] = Counter()
    infos = []
    for index in stream:
        infos.append((index, seen[index]))
        seen[index] += 1
    return infos


def batches(stream: Sequence[int], size: int, *, drop_last: bool) -> list[list[int]]:
    """Consecutive draws cut into batches."""
    cut = [list(stream[at : at + size]) for at in range(0, len(stream), size)]
    return cut[:-1] if drop_last and cut and len(cut[-1]) < size else cut


def fresh_offset(passes: Iterable[Sequence[int]], drawn: int) -> int | None:
    """The oldest example still needed after `drawn` draws; None: all are served."""
    for window in passes:
        if drawn < len(window):
            return window[0]
        drawn -= len(window)
    return None


def fixed_capacity(window: int, factor: Fraction) -> int:
    """Slots in the ring: the window, a segment, and for fractions half of one."""
    segment = math.ceil(Fraction(window, math.ceil(factor)))
    return window + segment + (segment // 2 if factor.denominator > 1 else 0)


@dataclass
class Ring:
    """A producer and a consumer taking turns at a ring, each as far as it can go."""

    passes: list[list[int]]
    batch: int
    capacity: int

    def stalls(self, n: int) -> bool:
        """Return True if the two wait for each other before n examples are served."""
        left = deque([len(window), window[0], window[-1]] for window in self.passes)
        freed = 0
        while left:
            filled = min(n, freed + self.capacity)
            if self._last_needed(left) >= filled:
                return True
            self._draw(left)
            freed = left[0][1] if left else n
        return False

    def _last_needed(self, left: Iterable[list[int]]) -> int:
        """The newest example that a pass under the next batch covers."""
        wanted = self.batch
        last = -1
        for draws_left, _, newest in left:
            if wanted > 0:
                last = newest
            wanted -= draws_left
        return last

    def _draw(self, left: deque[list[int]]) -> None:
        """Takes one batch; passes that are fully drawn go."""
        wanted = self.batch
        while wanted and left:
            part = min(wanted, left[0][0])
            left[0][0] -= part
            wanted -= part
            if not left[0][0]:
                left.popleft()


@dataclass
class Auto:
    """The schedule of factor "auto", told at each pass's end how the ring stands."""

    window: int
    batch_size: int
    max_factor: int
    lo: int = 0
    hi: int = 0
    uses: list[int] = field(default_factory=list)
    state: str = "first"

    def __post_init__(self) -> None:
        """Sets the sizes that depend on the arguments alone."""
        roughly = max(4, min(16, self.window // self.batch_size))
        self.segments = min(self.window, roughly)
        self.first = max(math.ceil(Fraction(self.window, 4)), self.batch_size)
        share = Fraction(self.first * self.segments, self.window)
        self.first_segments = math.ceil(share)
        self.segment = math.ceil(Fraction(self.window, self.segments))
        self.capacity = self.window + self.segment
        self.least = max(1, (self.segments + 1) // 2)
        self.limit = max(self.least, self.first_segments)

    def start(self, number: int) -> int:
        """The first record of a segment."""
        later = number - self.first_segments
        if later <= 0:
            return math.floor(Fraction(number * self.first, self.first_segments))
        return self.first + math.floor(Fraction(later * self.window, self.segments))

    def filled(self, committed: int, *, ended: bool) -> int:
        """Segments that are filled; after the end a partial one is filled too."""
        number = self.hi
        while self.start(number + 1) <= committed:
            number += 1
        return number + 1 if ended and self.start(number) < committed else number

    def advance(self, committed: int, *, held_back: bool = False, ended: bool) -> str:
        """Told how the ring stands: "pass" if one begins, else "wait" or "finished"."""
        filled = self.filled(committed, ended=ended)
        if self.state == "first":
            return self._first_pass(filled, ended=ended)
        if self.state == "pass":
            self._end_pass(committed, held_back=held_back)
        self.state = self._next_pass(filled, ended=ended)
        return self.state

    def _first_pass(self, filled: int, *, ended: bool) -> str:
        if filled < self.first_segments and not ended:
            return "wait"
        self._enter(min(filled, self.segments if ended else self.limit))
        self.state = "pass" if filled else "finished"
        return self.state

    def _end_pass(self, committed: int, *, held_back: bool) -> None:
        """Does the books: the share left free, uses, segments that are spent."""
        self._adapt(committed, held_back=held_back)
        self.uses = [use + 1 for use in self.uses]
        while self.uses and self.uses[0] >= self.max_factor:
            self._leave()

    def _next_pass(self, filled: int, *, ended: bool) -> str:
        ready = filled - self.hi
        if ready > 0 and ended:
            while self.uses:
                self._leave()
            self._enter(min(ready, self.segments))
        elif ready > 0:
            self._enter(min(ready, self.limit))
        elif ended:
            return "finished"
        while len(self.uses) > self.limit and not ended:
            self._leave()
        return "pass" if self.uses else "wait"

    def _adapt(self, committed: int, *, held_back: bool) -> None:
        """Leaves free as much as upstream fills in a pass of that length."""
        end = self.start(self.hi)
        swept = end - self.start(self.lo)
        filled = max(0, committed - end)
        share = math.floor(Fraction(self.segments * swept, swept + filled))
        self.limit = self.least if held_back else max(self.least, share)

    def _enter(self, number: int) -> None:
        self.hi += number
        self.uses += [0] * number

    def _leave(self) -> None:
        self.lo += 1
        self.uses.pop(0)
