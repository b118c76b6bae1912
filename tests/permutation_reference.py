"""The permutation in plain Python, from the specification in permutation.hpp alone.

Slow, and meant to be: nothing here is shared with the C++.
"""

import math

MASK = 0xFFFFFFFF


def philox4x32(counter: tuple[int, ...], key: tuple[int, int]) -> tuple[int, ...]:
    """Ten rounds of Philox4x32 (Salmon et al. 2011, section 3.3)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return tuple(c)


def permutation_key(seed: int, epoch: int, pass_: int) -> list[int]:
    """The sixteen key words of one pass."""
    words: list[int] = []
    for i in range(4):
        counter = (
            epoch % 2**32,
            epoch // 2**32,
            pass_ % 2**32,
            pass_ // 2**32 + (0xA0 + i) * 2**24,
        )
        words += philox4x32(counter, (seed % 2**32, seed // 2**32))
    return words


def radices(n: int) -> tuple[int, int]:
    """The even left radix and the right radix."""
    base = max(2, math.isqrt(n) + math.isqrt(n) % 2)
    allowed = [a for a in range(base, base + 15, 2) if a <= base + base // 4]
    left = min(allowed, key=lambda a: a * -(-n // a))
    return left, -(-n // left)


def rounds_for(n: int) -> int:
    """The number of rounds that a permutation of n elements gets."""
    if n < 32:
        return 36
    if n < 256:
        return 16
    return 12 if n < 1024 else 10


def mix(value: int, key: int, limit: int) -> int:
    """The round function F."""
    x = ((value ^ key) * 0x7FEB352D) % 2**32
    x ^= x >> 15
    x = (x * 0x846CA68B) % 2**32
    return (x * limit) >> 32


def permute(
    n: int, key: list[int], first: int, count: int, rounds: int | None = None
) -> list[int]:
    """Return the images of the indices first, ..., first + count - 1."""
    a, b = radices(n)
    rounds = rounds or rounds_for(n)
    keys = [(key[r % 16] + (r // 16) * 0x9E3779B9) % 2**32 for r in range(rounds)]
    out = []
    for x in range(first, first + count):
        while True:
            right, left = divmod(x, a)
            for r in range(0, rounds, 2):
                left = (left + mix(right, keys[r], a)) % a
                right = (right + mix(left, keys[r + 1], b)) % b
            x = left + a * right  # noqa: PLW2901
            if x < n:
                break
        out.append(x)
    return out
