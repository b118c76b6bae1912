"""Random control flow on the PTX machine: each thread ends as if it ran alone."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from ptx_machine import Machine, PtxFaultError

FUEL = 40  # blocks that a thread goes through at most


@dataclass(frozen=True)
class Part:
    """A basic block: x = x * factor + term, and then a jump by a bit of x."""

    factor: int
    term: int
    bit: int
    if_set: int  # the next block where the bit is set; -1 ends the thread
    if_clear: int


def random_program(seed: int) -> list[Part]:
    """Draw blocks that jump anywhere, into the middle of loops, too."""
    chance = random.Random(seed)
    count = chance.randint(2, 9)

    def target() -> int:
        return chance.randrange(-1, count)

    return [
        Part(
            chance.randrange(1, 2**31, 2),
            chance.getrandbits(31),
            chance.randrange(32),
            target(),
            target(),
        )
        for _ in range(count)
    ]


def text_of(program: list[Part]) -> str:
    """Return a kernel whose thread t stores the x that it ends with."""
    lines = []
    for number, part in enumerate(program):
        lines += [
            f"B{number}:",
            f"mul.lo.u32 %x, %x, {part.factor};",
            f"add.u32 %x, %x, {part.term};",
            "sub.u32 %fuel, %fuel, 1;",
            "setp.eq.u32 %p, %fuel, 0;",
            "@%p bra END;",
            f"and.b32 %bit, %x, {1 << part.bit};",
            "setp.ne.u32 %p, %bit, 0;",
            f"@%p bra {label(part.if_set)};",
            f"bra {label(part.if_clear)};",
        ]
    return f"""
.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{
  .reg .pred %p;
  .reg .b32 %t, %x, %fuel, %bit;
  .reg .b64 %at, %to;
  mov.u32 %t, %tid.x;
  mov.u32 %x, %t;
  mov.u32 %fuel, {FUEL};
  {chr(10).join(lines)}
END:
  bar.sync 0;
  ld.param.u64 %to, [out];
  mul.wide.u32 %at, %t, 4;
  add.s64 %to, %to, %at;
  st.global.u32 [%to], %x;
  ret;
}}
"""


def label(number: int) -> str:
    return "END" if number < 0 else f"B{number}"


def alone(program: list[Part], thread: int) -> int:
    """Run one thread."""
    x, at = thread, 0
    for _ in range(FUEL):
        part = program[at]
        x = (x * part.factor + part.term) % 2**32
        at = part.if_set if x >> part.bit & 1 else part.if_clear
        if at < 0:
            break
    return x


def run(text: str, threads: int, seed: int) -> list[int]:
    machine = Machine(seed)
    out = machine.allocate(4 * threads)
    address = out.to_bytes(8, "little")
    machine.load(text).launch("k", [1], [threads], [address])
    return np.frombuffer(machine.read(out, 4 * threads), np.uint32).tolist()


@pytest.mark.parametrize("seed", range(60))
def test_threads_part_and_meet_again(seed):
    """They all come to the barrier together, whatever way they took."""
    program = random_program(seed)
    threads = random.Random(seed).choice([1, 32, 45, 96])
    wanted = [alone(program, thread) for thread in range(threads)]
    assert run(text_of(program), threads, seed) == wanted


def test_a_barrier_on_one_way_is_found():
    """In any block of such a program that only some threads come to."""
    found = []
    for seed in range(40):
        program = random_program(seed)
        number = random.Random(seed).randrange(1, len(program))
        text = text_of(program).replace(f"B{number}:", f"B{number}:\nbar.sync 0;")
        try:
            run(text, 64, seed)
        except PtxFaultError as fault:
            found.append(fault.kind)
    assert set(found) == {"divergent barrier"}
    assert len(found) > 20
