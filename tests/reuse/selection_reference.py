"""A slow, obviously right reference of passes that leave records out.

The windows of passes and the order of a pass over all of a window are those of
`schedule_reference.py`; each record of a pass is looked at one by one. Nothing here is
shared with the native code.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from permutation_reference import philox4x32
from schedule_reference import Order

Info = tuple[int, int, float]
"""Of a draw: the example, its uses before, its weight."""


def leaves_out(seed: int, epoch: int, pass_: int, record: int, thin: float) -> bool:
    """The coin of a record, from the specification in thinning.hpp alone."""
    key0, key1, *_ = philox4x32(
        (epoch % 2**32, epoch // 2**32, pass_ % 2**32, pass_ // 2**32 + 0xD0 * 2**24),
        (seed % 2**32, seed // 2**32),
    )
    x = (record % 2**32) ^ key0
    x = (x ^ (x >> 16)) * 0x7FEB352D % 2**32
    x = x ^ (x >> 15) ^ ((key1 + record // 2**32) % 2**32)
    x = x * 0x846CA68B % 2**32
    x = (x ^ (x >> 16)) * 0x7FEB352D % 2**32
    return (x ^ (x >> 15)) < math.floor(thin * 2**32 + 0.5)


@dataclass
class Selective:
    """The draws of an epoch, where losses are reported and versions put meanwhile.

    Attributes:
        passes: the windows of its passes.
        order: shuffles a window.
        seed, epoch: of the buffer.
        thin: None: losses count for nothing.
        staleness: None: nothing expires.
        losses: the last one of each example.
        newest: the highest version that was put.
        versions: of the examples.
        expired: draws that were given up.
        ended: all examples were put. Else those in `versions` alone are there.
    """

    passes: Sequence[Sequence[int]]
    order: Order
    seed: int = 0
    epoch: int = 0
    thin: float | None = None
    staleness: int | None = None
    losses: dict[int, float] = field(default_factory=dict)
    newest: int = -1
    versions: dict[int, int] = field(default_factory=dict)
    expired: int = 0
    ended: bool = True

    def __post_init__(self) -> None:
        """Begins before the first draw."""
        self._uses: Counter[int] = Counter()
        self._drawn: list[Info] = []
        self._draws = self._walk()

    def put(self, example: int, version: int = 0) -> None:
        """Notes the version of an example, which is there from now on."""
        self.versions[example] = version
        self.newest = max(self.newest, version)

    def report(self, examples: Iterable[int], losses: Iterable[float]) -> None:
        """Notes the losses of examples."""
        self.losses.update(zip(examples, losses, strict=True))

    def batch(self, size: int) -> list[Info] | None:
        """The next draws: `size` of them, fewer at the end; None, if a pass waits.

        Draws up to there are taken, whatever expires before the rest.
        """
        for draw in self._draws:
            if draw is None:
                return None
            self._drawn.append(draw)
            if len(self._drawn) == size:
                break
        drawn, self._drawn = self._drawn, []
        return drawn

    def _walk(self) -> Iterator[Info | None]:
        for number, window in enumerate(self.passes):
            while not self.ended and window[-1] not in self.versions:
                yield None
            weights = self._weights(number, window)
            for place in self.order(number, len(window)):
                example = window[place]
                if example not in weights:
                    continue
                if self._is_late(example):
                    self.expired += 1
                    continue
                yield example, self._uses[example], weights[example]
                self._uses[example] += 1

    def _weights(self, number: int, window: Sequence[int]) -> dict[int, float]:
        """The examples that a pass which begins now serves, and their weights."""
        if self.thin is None:
            return dict.fromkeys(window, 1.0)
        known = [self.losses[example] for example in window if example in self.losses]
        mean = Fraction(sum(map(Fraction, known)), max(len(known), 1))
        weights = {}
        for example in window:
            low = self.losses.get(example, math.inf) < mean
            late = self._is_late(example)
            out = leaves_out(self.seed, self.epoch, number, example, self.thin)
            if low and out and not late:
                continue
            weights[example] = 1 / (1 - self.thin) if low else 1.0
        return weights

    def _is_late(self, example: int) -> bool:
        if self.staleness is None:
            return False
        return self.versions.get(example, 0) < self.newest - self.staleness
