"""The random words of an operation: a function of seed, epoch, draw and operation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from permutation_reference import philox4x32

MASK = np.uint64(0xFFFFFFFF)
ELEMENTS = 0x80000000
"""The block of element 0."""
PARTNER = 0x8000
"""AddedDelays to the number of an operation where it augments a partner."""


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Philox4x32-10 of counters [..., 4], many at once; as uint64 that hold 32 bits."""
    c = [np.asarray(word, np.uint64) for word in np.moveaxis(counter, -1, 0)]
    k0, k1 = key
    shift = np.uint64(32)
    for _ in range(10):
        even, odd = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (odd >> shift) ^ c[1] ^ np.uint64(k0),
            odd & MASK,
            (even >> shift) ^ c[3] ^ np.uint64(k1),
            even & MASK,
        ]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return np.stack(c, axis=-1)


def halves(value: int) -> tuple[int, int]:
    """The low and the high word of 64 bits."""
    return value % 2**32, value // 2**32


def below(word: int, n: int) -> int:
    """A whole number 0 ... n - 1."""
    return (int(word) * n) >> 32


@cache
def epoch_key(seed: int, epoch: int) -> tuple[int, int]:
    """The key of all draws of an epoch."""
    words = philox4x32((*halves(epoch), 0, 0xB0 << 24), halves(seed))
    return words[0], words[1]


@dataclass(frozen=True)
class Draw:
    """One operation at one draw. `row` is 0, or the row of a unit="batch".

    `first_element` is 0, or the number of the first element of a frame of a clip.
    `record` is the number of the record among the epoch's fresh examples, and `echo`
    that of its uses before; only operations that alternate depend on them.
    """

    seed: int
    epoch: int
    draw: int
    op: int
    row: int = 0
    first_element: int = 0
    record: int = 0
    echo: int = 0
    key: tuple[int, int] | None = None
    """In place of the epoch's, where uses of a record share their words."""
    opposite: bool = False

    def shared(self, uses: int | None) -> Draw:
        """The words that each `uses` uses of a record share; None: all of them.

        Every second use makes the opposite choice.
        """
        pair = 0 if uses is None else self.echo // uses
        low, high = halves(self.record)
        counter = (low, (high & 0xFFFF) | 0xFFFF << 16, pair, 0)
        words = philox4x32(counter, self._key)
        return replace(
            self, draw=0, key=(words[0], words[1]), opposite=self.echo % 2 == 1
        )

    @property
    def _key(self) -> tuple[int, int]:
        return self.key or epoch_key(self.seed, self.epoch)

    def place(self, word: int, n: int) -> int:
        """A whole number 0 ... n - 1, or the opposite one."""
        return n - 1 - below(word, n) if self.opposite else below(word, n)

    def choices(self, block: int) -> list[float]:
        """The four words of a block, or the opposite ones, as 0 <= u < 1."""
        flips = 0xFFFFFFFF if self.opposite else 0
        return [(word ^ flips) * 2.0**-32 for word in self.words(block)]

    @property
    def partner(self) -> Draw:
        """The words with which the partner of a mix goes through the same operation."""
        return replace(self, op=self.op + PARTNER)

    def words(self, block: int) -> tuple[int, ...]:
        """The four words of a block."""
        low, high = halves(self.draw)
        counter = (low, (high & 0xFFFF) | self.op << 16, self.row, block)
        return philox4x32(counter, self._key)

    def uniforms(self, block: int) -> list[float]:
        """The four words of a block as 0 <= u < 1."""
        return [word * 2.0**-32 for word in self.words(block)]

    def elements(self, count: int) -> np.ndarray:
        """[count, 4]: the words of each element."""
        low, high = halves(self.draw)
        counter = np.empty((count, 4), np.uint64)
        counter[:] = low, (high & 0xFFFF) | self.op << 16, self.row, 0
        counter[:, 3] = np.arange(count) + ELEMENTS + self.first_element
        return philox(counter, epoch_key(self.seed, self.epoch))
