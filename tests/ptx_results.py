"""Single instructions of PTX on rows of operands, executed on the PTX machine."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from ptx_machine import Machine

THREADS = 128
WIDTHS = {f"{kind}{bits}": bits for kind in "us" for bits in (16, 32, 64)}
Row = tuple[int, ...]


def results(
    instruction: str, to: int, sources: Sequence[int], rows: Sequence[Row]
) -> list[int]:
    """Run `instruction` on a thread for each row of operands %a, %b, %c, %e.

    Args:
        instruction: with the result %z.
        to: bits of the result; 1 for a predicate.
        sources: bits of each operand.
        rows: tuples of their bits.
    """
    lines = []
    for i, (name, bits) in enumerate(zip("abce", sources, strict=False)):
        lines.append(f".reg .b{bits} %{name};")
        lines.append(f"ld.global.b{bits} %{name}, [%at+{8 * i}];")
    kind = "pred" if to == 1 else f"b{to}"
    store = {
        1: "selp.b64 %word, 1, 0, %z;",
        64: "mov.b64 %word, %z;",
    }.get(to, f"cvt.u64.u{to} %word, %z;")
    text = f"""
.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
  .reg .b32 %t, %n, %block;
  .reg .b64 %at, %step, %to, %word;
  .reg .{kind} %z;
  mov.u32 %t, %tid.x;
  mov.u32 %block, %ctaid.x;
  mad.lo.s32 %n, %block, {THREADS}, %t;
  ld.param.u64 %at, [in];
  mul.wide.u32 %step, %n, {8 * len(sources)};
  add.s64 %at, %at, %step;
  ld.param.u64 %to, [out];
  mul.wide.u32 %step, %n, 8;
  add.s64 %to, %to, %step;
  {" ".join(lines)}
  {instruction};
  {store}
  st.global.u64 [%to], %word;
  ret;
}}
"""
    blocks = -(-len(rows) // THREADS)
    filled = [*rows, *[rows[0]] * (blocks * THREADS - len(rows))]
    content = np.array(filled, np.uint64).tobytes()
    machine = Machine()
    into, out = machine.allocate(len(content)), machine.allocate(8 * len(filled))
    machine.write(into, content)
    arguments = [address.to_bytes(8, "little") for address in (into, out)]
    machine.load(text).launch("k", [blocks], [THREADS], arguments)
    found = np.frombuffer(machine.read(out, 8 * len(filled)), np.uint64)
    return [int(word) for word in found[: len(rows)]]


def values(chance: random.Random, bits: int) -> int:
    """Draw bits: any, few, or near a power of two."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice([0, 1, 2, 3, 7]) % (1 << bits)
    if kind == 1:
        near = (1 << chance.randrange(bits)) + chance.randint(-2, 2)
        return near % (1 << bits)
    if kind == 2:
        return -chance.randrange(1, 4) % (1 << bits)
    return chance.getrandbits(bits)


def rows_of(seed: int, sources: Sequence[int], count: int = 600) -> list[Row]:
    """Draw rows of operands with these bits."""
    chance = random.Random(seed)
    return [tuple(values(chance, bits) for bits in sources) for _ in range(count)]


def number(bits: int, kind: str) -> int:
    """Return the integer that bits are for a type such as "s16"."""
    width = int(kind[1:])
    if kind[0] == "s" and bits >> (width - 1):
        return bits - (1 << width)
    return bits
