"""A slow, obviously right reference of passes that leave out expired records.

The windows of passes and the order of a pass over all of a window are those of
`schedule_reference.py`; each record of a pass is looked at one by one. Nothing here is
shared with the native code.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from schedule_reference import Order

Info = tuple[int, int]
"""Of a draw: the example, and its uses before."""


@dataclass
class Expiring:
    """The draws of an epoch, where versions are put meanwhile.

    Attributes:
        passes: the windows of its passes.
        order: shuffles a window.
        staleness: the versions that an example may be older than the newest.
        newest: the highest version that was put.
        versions: of the examples.
        expired: draws that were given up.
        ended: all examples were put. Else those in `versions` alone are there.
    """

    passes: Sequence[Sequence[int]]
    order: Order
    staleness: int
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
            for place in self.order(number, len(window)):
                example = window[place]
                if self._is_late(example):
                    self.expired += 1
                    continue
                yield example, self._uses[example]
                self._uses[example] += 1

    def _is_late(self, example: int) -> bool:
        return self.versions.get(example, 0) < self.newest - self.staleness
