"""The PTX machine's floating point beside exact fractions, rounded once."""

from __future__ import annotations

import operator
import random
from fractions import Fraction

import numpy as np
import pytest

from ieee import FORMATS, Format, integer
from ptx_results import WIDTHS, number, results, rows_of

MODES = ("rn", "rz", "rm", "rp")
NANS = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}


def floats(chance, of: Format):
    """Draw bits: any, a special value, or near one, or near 1."""
    one = of.bias << of.fraction
    special = [0, 1, of.infinity, of.infinity - 1, 1 << of.fraction, one]
    kind = chance.randrange(4)
    if kind == 0:
        bits = chance.choice(
            [*special, of.infinity + 1, of.infinity + (1 << of.fraction - 1)]
        )
    elif kind == 1:
        bits = max(chance.choice(special[:5]) + chance.randint(-2, 0), 0)
    elif kind == 2:
        bits = one + chance.randint(-9, 9) * (1 << chance.randrange(of.fraction))
    else:
        bits = chance.getrandbits(of.bits - 1)
    return bits | (of.sign if chance.randrange(2) else 0)


def float_rows(seed, of, operands, count=500):
    chance = random.Random(seed)
    return [tuple(floats(chance, of) for _ in range(operands)) for _ in range(count)]


def same(got, wanted, kind):
    """Compare bits; None stands for a NaN."""
    if wanted is None:
        return FORMATS[kind].is_nan(got) and got == NANS.get(kind, got)
    return got == wanted


def product(of, a, b):
    """Return the exact product and its sign; infinite or NaN as bits or None."""
    negative = bool((a ^ b) & of.sign)
    if of.is_nan(a) or of.is_nan(b):
        return None, negative
    if of.is_infinite(a) or of.is_infinite(b):
        zero = 0 in (a & (of.sign - 1), b & (of.sign - 1))
        return (None if zero else of.infinity), negative
    return of.value(a) * of.value(b), negative


def fused(of, a, b, c):
    """Return a * b + c, rounded to nearest once."""
    exact, negative = product(of, a, b)
    if exact is None or of.is_nan(c):
        return None
    if isinstance(exact, int):  # infinite
        if of.is_infinite(c) and bool(c & of.sign) != negative:
            return None
        return exact | (of.sign if negative else 0)
    if of.is_infinite(c):
        return c
    total = exact + of.value(c)
    return of.rounded(total, "rn", negative=negative and bool(c & of.sign))


def divided(of, a, b):
    negative = bool((a ^ b) & of.sign)
    sign = of.sign if negative else 0
    if of.is_nan(a) or of.is_nan(b):
        return None
    if of.is_infinite(a):
        return None if of.is_infinite(b) else sign | of.infinity
    if of.is_infinite(b):
        return sign
    if of.value(b) == 0:
        return None if of.value(a) == 0 else sign | of.infinity
    return of.rounded(of.value(a) / of.value(b), "rn", negative=negative)


def key(of, bits):
    """Return a number whose order is that of the values, -0 before 0."""
    size = bits & (of.sign - 1)
    return -size - 1 if bits & of.sign else size


@pytest.mark.parametrize("kind", FORMATS)
def test_floats(kind):
    of = FORMATS[kind]
    one, minus_one = of.bias << of.fraction, of.bias << of.fraction | of.sign
    two, three = float_rows(of.bits, of, 2), float_rows(of.fraction, of, 3)
    minus_zero = of.sign

    def extreme(choose):
        def of_two(a, b):
            known = [bits for bits in (a, b) if not of.is_nan(bits)]
            return choose(known, key=lambda bits: key(of, bits)) if known else None

        return of_two

    cases = {
        "add.rn": (two, lambda a, b: fused(of, a, one, b)),
        "sub.rn": (two, lambda a, b: fused(of, b, minus_one, a)),
        "fma.rn": (three, lambda a, b, c: fused(of, a, b, c)),
        # A product that is 0 keeps its sign where a zero of that sign is added.
        "mul.rn": (
            two,
            lambda a, b: fused(of, a, b, minus_zero if (a ^ b) & of.sign else 0),
        ),
        "min": (two, extreme(min)),
        "max": (two, extreme(max)),
    }
    if of.bits > 16:
        cases["div.rn"] = (two, lambda a, b: divided(of, a, b))
        cases["rcp.rn"] = ([row[:1] for row in two], lambda a: divided(of, one, a))
    for name, (rows, expected) in cases.items():
        operands = ", ".join(f"%{name}" for name in "abc"[: len(rows[0])])
        found = results(
            f"{name}.{kind} %z, {operands}", of.bits, (of.bits,) * len(rows[0]), rows
        )
        for row, got in zip(rows, found, strict=True):
            wanted = expected(*row)
            assert same(got, wanted, kind), (name, [hex(one) for one in row], hex(got))


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_roots(kind):
    of = FORMATS[kind]
    rows = float_rows(5, of, 1)
    found = results(f"sqrt.rn.{kind} %z, %a", of.bits, (of.bits,), rows)
    words = np.array([row[0] for row in rows], f"u{of.bits // 8}")
    with np.errstate(all="ignore"):
        roots = np.sqrt(words.view(f"f{of.bits // 8}"))
        wanted = roots.view(words.dtype)
    for got, expected in zip(found, wanted.tolist(), strict=True):
        assert same(got, None if of.is_nan(expected) else expected, kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_comparisons(kind):
    of = FORMATS[kind]
    rows = float_rows(6, of, 2)
    rows += [(a, a) for a, _ in rows[:50]] + [(0, of.sign), (of.sign, 0)]
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        for unordered in (False, True):
            opcode = f"{name}{'u' if unordered else ''}"
            found = results(f"setp.{opcode}.{kind} %z, %a, %b", 1, (of.bits,) * 2, rows)
            for (a, b), got in zip(rows, found, strict=True):
                apart = of.is_nan(a) or of.is_nan(b)
                # -0 and 0 are equal; an infinity is beyond all others.
                sizes = [
                    0 if bits & (of.sign - 1) == 0 else key(of, bits) for bits in (a, b)
                ]
                holds = getattr(operator, name)(*sizes)
                assert got == (unordered if apart else holds), (opcode, hex(a), hex(b))
    for opcode in ("num", "nan"):
        found = results(f"setp.{opcode}.{kind} %z, %a, %b", 1, (of.bits,) * 2, rows)
        for (a, b), got in zip(rows, found, strict=True):
            assert got == ((of.is_nan(a) or of.is_nan(b)) == (opcode == "nan"))


# ---- conversions


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("source", [*FORMATS, *WIDTHS])
def test_conversions_to_floats(source, to):
    of = FORMATS[to]
    origin = FORMATS.get(source)
    bits = WIDTHS.get(source) or origin.bits
    exact = origin is not None and (
        of.fraction >= origin.fraction and of.bias >= origin.bias
    )
    rows = (
        rows_of(bits, (bits,), 300) if origin is None else float_rows(bits, origin, 1)
    )
    for mode in ("",) if exact else MODES:
        opcode = f"cvt.{mode}." if mode else "cvt."
        found = results(f"{opcode}{to}.{source} %z, %a", of.bits, (bits,), rows)
        for (word,), got in zip(rows, found, strict=True):
            if origin is None:
                value = Fraction(number(word, source))
                wanted = of.rounded(value, mode, negative=False)
            elif origin.is_nan(word):
                wanted = None
            else:
                negative = bool(word & origin.sign)
                infinite = of.infinity | (of.sign if negative else 0)
                wanted = (
                    infinite
                    if origin.is_infinite(word)
                    else of.rounded(origin.value(word), mode or "rn", negative=negative)
                )
            assert same(got, wanted, to), (opcode, to, source, hex(word), hex(got))


@pytest.mark.parametrize("to", ["u8", "s8", *WIDTHS])
@pytest.mark.parametrize("source", FORMATS)
def test_conversions_of_floats_to_integers(source, to):
    of, bits = FORMATS[source], int(to[1:])
    least = -(1 << bits - 1) if to[0] == "s" else 0
    most = least + (1 << bits) - 1
    rows = float_rows(bits, of, 1)
    register = max(bits, 16)
    for mode in MODES:
        found = results(f"cvt.{mode}i.{to}.{source} %z, %a", register, (of.bits,), rows)
        for (word,), got in zip(rows, found, strict=True):
            negative = bool(word & of.sign)
            if of.is_nan(word):
                wide = source == "f64" or bits == 64
                wanted = 1 << bits - 1 if wide else 0
                if to[0] == "s":
                    wanted = number(wanted, to)
            elif of.is_infinite(word):
                wanted = least if negative else most
            else:
                size = integer(abs(of.value(word)), mode, negative)
                wanted = min(max(-size if negative else size, least), most)
            assert got == wanted % (1 << register), (mode, to, hex(word), hex(got))


def test_halves_are_those_of_numpy_and_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rows = float_rows(8, FORMATS["f32"], 1, 2000)
    words = np.array([row[0] for row in rows], np.uint32).view(np.float32)
    for kind, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        found = results(f"cvt.rn.{kind}.f32 %z, %a", 16, (32,), rows)
        with np.errstate(all="ignore"):
            wanted = words.astype(dtype).view(np.uint16).tolist()
        for got, expected in zip(found, wanted, strict=True):
            nan = FORMATS[kind].is_nan(expected)
            assert same(got, None if nan else expected, kind)
