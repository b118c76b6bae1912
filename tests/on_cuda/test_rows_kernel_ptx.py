"""The kernel for records that differ in length, compiled by NVRTC and executed."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from echobuf.cuda.codegen import DRAW_OPTIONS
from kernels_compiled import ARCHITECTURES, ROOT, ptx_of
from ptx_machine import Machine, Module, PtxFaultError

SOURCE = (ROOT / "cpp" / "kernels" / "rows.cu").read_text()
LEAVES, THREADS, AT_ONCE = 32, 256, 4
LEAF = np.dtype(
    [
        *((name, "u8") for name in ("base", "bytes", "sources", "add", "ends", "each")),
        *((name, "u8") for name in ("lengths", "words", "row")),
        *((name, "u4") for name in ("records", "grain")),
        ("pad", "u1", 16),
    ]
)
MOVES = np.dtype([("live", "u8"), ("words", "u8"), ("leaf", LEAF, LEAVES)])


@functools.cache
def rows_ptx(architecture: str = "sm_90") -> str:
    return ptx_of(SOURCE, architecture, DRAW_OPTIONS)


@dataclass
class Launch:
    """Leaves of a batch on a machine, and the bytes that they must become."""

    machine: Machine
    chance: random.Random
    leaves: list[Any] = field(default_factory=list)
    expected: list[tuple[int, bytes]] = field(default_factory=list)

    def table(self, numbers: list[int]) -> int:
        return self.put(np.array([*numbers, 0], np.uint64).tobytes())

    def put(self, content: bytes) -> int:
        address = self.machine.allocate(len(content))
        self.machine.write(address, content)
        return address

    def add(self, form: str, lengths: list[int], row: int, short: int = 0) -> None:
        """A leaf in one of three forms; `short`: bytes that its memory lacks."""
        leaf = np.zeros((), LEAF)
        grain = next(size for size in (8, 4, 2, 1) if row % size == 0)
        skew = self.chance.randrange(16 // grain) * grain
        content = [self.chance.randbytes(length * row) for length in lengths]
        # Behind a record lies another one, up to the next aligned address.
        addresses = [self.put(each + bytes(-len(each) % 16)) for each in content]
        item = self.chance.choice([size for size in (1, 2, 4, 8) if row % size == 0])
        pattern = self.chance.randbytes(item)
        spare = self.chance.randrange(4) * row
        if form == "packed":
            whole = b"".join(content)
            ends = np.cumsum([0, *lengths]).tolist()
            leaf["ends"] = self.table(ends)
            target = whole + self.padding(pattern, len(whole), spare)
        else:
            longest = max(lengths)
            leaf["each"] = longest * row + (spare if form == "padded" else 0)
            if form == "padded":
                leaf["lengths"] = self.table(lengths)
            target = b""
            for each in content:
                target += each
                missing = int(leaf["each"]) - len(each)
                target += self.padding(pattern, len(target), missing)
        base = self.machine.allocate(skew + len(target) - short) + skew
        leaf["base"], leaf["bytes"], leaf["row"] = base, len(target), row
        offset = self.chance.choice([0, 16, 64])
        leaf["add"] = offset
        leaf["sources"] = self.table([address - offset for address in addresses])
        leaf["records"] = len(lengths)
        leaf["grain"] = next(
            size for size in (8, 4, 2, 1) if row % size == 0 and base % size == 0
        )
        for at in range(16):
            leaf["pad"][(base + at) % 16] = pattern[at % item]
        self.leaves.append(leaf)
        self.expected.append((base, target))

    @staticmethod
    def padding(pattern: bytes, at: int, count: int) -> bytes:
        return bytes(pattern[(at + i) % len(pattern)] for i in range(count))

    def run(self, module: Module, live: int = 0) -> None:
        moves = np.zeros((), MOVES)
        words = 0
        for number, leaf in enumerate(self.leaves):
            if leaf["bytes"]:
                words += -(-(int(leaf["base"]) % 16 + int(leaf["bytes"])) // 16)
            leaf["words"] = words
            moves["leaf"][number] = leaf
        moves["words"], moves["live"] = words, live
        blocks = -(-max(words, 1) // (THREADS * AT_ONCE))
        module.launch("echobuf_draw_rows", [blocks], [THREADS], [moves.tobytes()])

    def drawn(self) -> list[tuple[int, bytes]]:
        return [
            (base, self.machine.read(base, len(target)))
            for base, target in self.expected
        ]


def random_launch(seed: int) -> Launch:
    chance = random.Random(seed)
    launch = Launch(Machine(seed), chance)
    count = chance.choice([1, 2, 7, 40])
    for _ in range(chance.randint(1, 5)):
        row = chance.choice([1, 2, 3, 4, 6, 8, 12, 16, 40, 300])
        most = chance.choice([0, 1, 5, 30])
        lengths = [chance.randint(0, most) for _ in range(count)]
        form = chance.choice(["packed", "padded", "fixed"])
        if form == "fixed":
            lengths = [most] * count
        launch.add(form, lengths, row)
    return launch


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_leaves_are_drawn(architecture: str) -> None:
    for seed in range(12):
        launch = random_launch(ARCHITECTURES.index(architecture) * 100 + seed)
        launch.run(launch.machine.load(rows_ptx(architecture)))
        assert launch.drawn() == launch.expected, seed


def test_many_leaves_of_many_blocks() -> None:
    launch = Launch(Machine(1), random.Random(1))
    for number in range(LEAVES):
        launch.add("packed", [number * 3, 0, 700], 2)
    launch.run(launch.machine.load(rows_ptx()))
    assert launch.drawn() == launch.expected


@pytest.mark.parametrize("live", [0, 1])
def test_a_table_that_is_not_live_draws_nothing(live: int) -> None:
    launch = random_launch(7)
    flag = launch.put(np.uint64(live).tobytes())
    for base, target in launch.expected:
        launch.machine.write(base, bytes(len(target)))
    launch.run(launch.machine.load(rows_ptx()), flag)
    zeros = [(base, bytes(len(target))) for base, target in launch.expected]
    assert launch.drawn() == (launch.expected if live else zeros)


def test_a_write_behind_a_leaf_would_be_found() -> None:
    launch = Launch(Machine(2), random.Random(2))
    launch.add("packed", [5, 9, 33], 4, short=4)
    with pytest.raises(PtxFaultError, match="echobuf_draw_rows"):
        launch.run(launch.machine.load(rows_ptx()))
