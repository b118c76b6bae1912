"""The PTX machine's integers beside Python's."""

from __future__ import annotations

import operator
import random

import pytest

from ptx_results import WIDTHS, number, results, rows_of, values

SHIFTS = (0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 2**31, 2**32 - 1)


def quotient(a, b):
    """Divide as C does: towards 0."""
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


def check(instruction, to, sources, rows, expected):
    found = results(instruction, to, sources, rows)
    for row, got in zip(rows, found, strict=True):
        wanted = expected(*row) % (1 << to)
        assert got == wanted, (instruction, [hex(one) for one in row], hex(got))


@pytest.mark.parametrize("kind", WIDTHS)
def test_integers(kind):
    bits = WIDTHS[kind]
    two, three = rows_of(bits, (bits,) * 2), rows_of(bits + 1, (bits,) * 3)

    def of(function):
        return lambda *row: function(*(number(one, kind) for one in row))

    for name, function in {
        "add": operator.add,
        "sub": operator.sub,
        "mul.lo": operator.mul,
        "mul.hi": lambda a, b: a * b >> bits,
        "min": min,
        "max": max,
    }.items():
        check(f"{name}.{kind} %z, %a, %b", bits, (bits,) * 2, two, of(function))
    for name, function in {
        "mad.lo": lambda a, b, c: a * b + c,
        "mad.hi": lambda a, b, c: (a * b >> bits) + c,
    }.items():
        check(f"{name}.{kind} %z, %a, %b, %c", bits, (bits,) * 3, three, of(function))
    divisible = [row for row in two if row[1]]
    for name, function in {
        "div": quotient,
        "rem": lambda a, b: a - quotient(a, b) * b,
    }.items():
        check(f"{name}.{kind} %z, %a, %b", bits, (bits,) * 2, divisible, of(function))
    if bits < 64:
        wide = (bits, bits, 2 * bits)
        check(f"mul.wide.{kind} %z, %a, %b", 2 * bits, wide[:2], two, of(operator.mul))
        check(
            f"mad.wide.{kind} %z, %a, %b, %c",
            2 * bits,
            wide,
            rows_of(7, wide),
            lambda a, b, c: number(a, kind) * number(b, kind) + c,
        )
    chance = random.Random(bits)
    shifted = [(values(chance, bits), chance.choice(SHIFTS)) for _ in range(600)]
    check(
        f"shr.{kind} %z, %a, %b",
        bits,
        (bits, 32),
        shifted,
        lambda a, by: number(a, kind) >> min(by, 64),
    )
    check(
        f"shl.b{bits} %z, %a, %b",
        bits,
        (bits, 32),
        shifted,
        lambda a, by: a << min(by, 64),
    )


@pytest.mark.parametrize("kind", WIDTHS)
def test_comparisons_and_signs(kind):
    bits, rows = WIDTHS[kind], rows_of(9, (WIDTHS[kind],) * 2)
    orders = {name: name for name in ("eq", "ne", "lt", "le", "gt", "ge")}
    if kind[0] == "u":
        orders |= {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
    else:
        check(f"neg.{kind} %z, %a", bits, (bits,) * 2, rows, lambda a, b: -a)
        check(
            f"abs.{kind} %z, %a",
            bits,
            (bits,) * 2,
            rows,
            lambda a, b: abs(number(a, kind)),
        )
    for order, name in orders.items():
        holds = getattr(operator, name)
        check(
            f"setp.{order}.{kind} %z, %a, %b",
            1,
            (bits,) * 2,
            rows,
            lambda a, b, holds=holds: holds(number(a, kind), number(b, kind)),
        )


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_bitwise(bits):
    rows = rows_of(bits, (bits,) * 2)
    for name in ("and", "or", "xor"):
        holds = getattr(operator, f"__{name}__")
        check(f"{name}.b{bits} %z, %a, %b", bits, (bits,) * 2, rows, holds)
    check(f"not.b{bits} %z, %a", bits, (bits,) * 2, rows, lambda a, b: ~a)


def permuted(a, b, selector):
    pool = (b << 32 | a).to_bytes(8, "little")
    chosen = []
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = pool[nibble & 7]
        chosen.append((0xFF if byte > 127 else 0) if nibble > 7 else byte)
    return int.from_bytes(bytes(chosen), "little")


def test_bytes_and_bits():
    three = rows_of(3, (32, 32, 32))
    check("prmt.b32 %z, %a, %b, %c", 32, (32,) * 3, three, permuted)
    for table in (0x1B, 0x96, 0xCA, 0xE8, 0x6A):
        check(
            f"lop3.b32 %z, %a, %b, %c, {table}",
            32,
            (32,) * 3,
            three,
            lambda a, b, c, table=table: sum(
                (table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i
                for i in range(32)
            ),
        )
    chance = random.Random(4)
    funnels = [(*row[:2], chance.choice(SHIFTS)) for row in three]
    for wraps in ("wrap", "clamp"):

        def by(n, wraps=wraps):
            return n % 32 if wraps == "wrap" else min(n, 32)

        check(
            f"shf.l.{wraps}.b32 %z, %a, %b, %c",
            32,
            (32,) * 3,
            funnels,
            lambda a, b, n, by=by: (b << 32 | a) << by(n) >> 32,
        )
        check(
            f"shf.r.{wraps}.b32 %z, %a, %b, %c",
            32,
            (32,) * 3,
            funnels,
            lambda a, b, n, by=by: (b << 32 | a) >> by(n),
        )
    for bits in (32, 64):
        one = rows_of(bits, (bits,))
        check(f"popc.b{bits} %z, %a", 32, (bits,), one, int.bit_count)
        check(
            f"clz.b{bits} %z, %a",
            32,
            (bits,),
            one,
            lambda a, n=bits: n - a.bit_length(),
        )
        check(
            f"brev.b{bits} %z, %a",
            bits,
            (bits,),
            one,
            lambda a, n=bits: int(f"{a:0{n}b}"[::-1], 2),
        )


@pytest.mark.parametrize("source", WIDTHS)
def test_conversions_of_integers(source):
    bits = WIDTHS[source]
    rows = rows_of(bits, (bits,), 300)
    for to in ("u8", "s8", *WIDTHS):
        width = int(to[1:])
        least = -(1 << width - 1) if to[0] == "s" else 0
        most = least + (1 << width) - 1
        register = max(width, 16)

        def cut(word, to=to, width=width):
            return number(number(word, source) % (1 << width), to)

        def clamped(word, least=least, most=most):
            return min(max(number(word, source), least), most)

        check(f"cvt.{to}.{source} %z, %a", register, (bits,), rows, cut)
        check(f"cvt.sat.{to}.{source} %z, %a", register, (bits,), rows, clamped)
