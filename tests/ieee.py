"""Floating-point formats in exact arithmetic: what a correctly rounded result is."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Format:
    """A binary format of IEEE 754, or bfloat16.

    Attributes:
        bits: in all.
        fraction: bits of the fraction.
    """

    bits: int
    fraction: int

    @property
    def bias(self) -> int:
        return (1 << (self.bits - self.fraction - 2)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - self.fraction - 1)) - 1) << self.fraction

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    def is_nan(self, bits: int) -> bool:
        return bits & (self.sign - 1) > self.infinity

    def is_infinite(self, bits: int) -> bool:
        return bits & (self.sign - 1) == self.infinity

    def value(self, bits: int) -> Fraction:
        """Return the value of a finite number."""
        exponent = (bits & (self.sign - 1)) >> self.fraction
        whole = bits & ((1 << self.fraction) - 1)
        if exponent:
            whole |= 1 << self.fraction
        power = max(exponent, 1) - self.bias - self.fraction
        return Fraction(-whole if bits & self.sign else whole) * Fraction(2) ** power

    def rounded(self, value: Fraction, mode: str, *, negative: bool) -> int:
        """Return the bits of a value, rounded once.

        Args:
            value: the exact one.
            mode: "rn" to nearest, ties to even; "rz" towards 0; "rm" down; "rp" up.
            negative: the sign of a result that is 0.
        """
        if value:
            negative = value < 0
        sign = self.sign if negative else 0
        size = abs(value)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        if size < Fraction(2) ** exponent:
            exponent -= 1
        exponent = max(exponent, 1 - self.bias) if size else (1 - self.bias)
        whole = integer(
            size / Fraction(2) ** (exponent - self.fraction), mode, negative
        )
        # Consecutive numbers have consecutive bits, over the exponent's limits, too.
        bits = whole + ((exponent + self.bias - 1) << self.fraction)
        if bits >= self.infinity:
            outward = {"rn": True, "rz": False, "rm": negative, "rp": not negative}
            bits = self.infinity if outward[mode] else self.infinity - 1
        return sign | bits


def integer(size: Fraction, mode: str, negative: bool) -> int:
    """Round the size of a number, whose sign is known, to an integer."""
    whole, rest = divmod(size, 1)
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rz": False,
        "rm": rest > 0 and negative,
        "rp": rest > 0 and not negative,
    }
    return int(whole) + up[mode]


FORMATS = {
    "f16": Format(16, 10),
    "bf16": Format(16, 7),
    "f32": Format(32, 23),
    "f64": Format(64, 52),
}
