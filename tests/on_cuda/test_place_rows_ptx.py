"""The kernel that places records in packed rows, compiled by NVRTC and executed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from kernels_compiled import ARCHITECTURES
from ptx_machine import Machine, Module, PtxFaultError
from test_rows_kernel_ptx import rows_ptx

LEAVES, THREADS, PIECE = 32, 256, 1024
LEAF = np.dtype(
    [
        *((name, "u8") for name in ("offset", "pitch", "row")),
        *((name, "u4") for name in ("field", "grain")),
    ]
)
MOVES = np.dtype(
    [
        *((name, "u8") for name in ("records", "segments", "positions", "mark_pitch")),
        *((name, "u4") for name in ("fields", "pieces", "leaves", "marks")),
        ("leaf", LEAF, LEAVES),
    ]
)
SENTINEL = 0xA5


def up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


@dataclass
class Rows:
    """A block of packed rows on a machine, and the bytes that it must become."""

    machine: Machine
    chance: random.Random
    count: int
    length: int  # of a row
    sizes: list[int]  # bytes of a value of each field
    of_leaves: list[int]  # the field of each leaf
    base: int = 0
    size: int = 0
    moves: np.ndarray = field(default_factory=lambda: np.zeros((), MOVES))
    expected: bytearray = field(default_factory=bytearray)
    table: list[int] = field(default_factory=list)
    longest: int = 0

    def __post_init__(self) -> None:
        for number, of in enumerate(self.of_leaves):
            leaf = self.moves["leaf"][number]
            row = self.sizes[of]
            pitch = up(self.length * row, 16)
            leaf["offset"], leaf["pitch"], leaf["row"] = self.add(pitch), pitch, row
            leaf["field"], leaf["grain"] = of, (row | 8) & -(row | 8)
        self.moves["mark_pitch"] = up(4 * self.length, 16)
        for name in ("segments", "positions"):
            self.moves[name] = self.add(int(self.moves["mark_pitch"]))
        self.moves["fields"], self.moves["leaves"] = (
            len(self.sizes),
            len(self.of_leaves),
        )
        self.moves["marks"] = 1

    def add(self, pitch: int) -> int:
        at = self.size
        self.size += up(self.count * pitch, 64)
        return at

    def allocate(self, short: int = 0) -> None:
        """`short`: bytes that the memory lacks."""
        self.base = self.machine.allocate(self.size - short)
        self.machine.write(self.base, bytes([SENTINEL]) * (self.size - short))
        self.expected = bytearray([SENTINEL]) * self.size

    def place(self, row: int, first: int, length: int, segment: int) -> None:
        """A record is to go to `length` values of a row, from `first` on."""
        content = [self.chance.randbytes(length * size) for size in self.sizes]
        self.table += [self.base, row, first, length, segment]
        for each in content:
            address = self.machine.allocate(up(len(each), 16) or 16)
            self.machine.write(address, each)
            self.table.append(address)
        for number, of in enumerate(self.of_leaves):
            leaf = self.moves["leaf"][number]
            size = self.sizes[of]
            self.expect(
                int(leaf["offset"] + row * leaf["pitch"]) + first * size, content[of]
            )
        marks = {
            "segments": np.full(length, segment, np.int32),
            "positions": np.arange(length, dtype=np.int32),
        }
        if self.moves["marks"]:
            for name, numbers in marks.items():
                at = int(self.moves[name] + row * self.moves["mark_pitch"]) + 4 * first
                self.expect(at, numbers.tobytes())
        self.longest = max(self.longest, length)

    def expect(self, at: int, content: bytes) -> None:
        self.expected[at : at + len(content)] = content

    def fill(self) -> None:
        """Records one behind the other in each row, some of no values."""
        for row in range(self.count):
            at, segment = 0, 1
            while at < self.length and self.chance.random() < 0.9:
                length = self.chance.randint(0, self.length - at)
                self.place(row, at, length, segment)
                at, segment = at + length, segment + 1

    def run(self, module: Module) -> None:
        records = len(self.table) // (5 + len(self.sizes))
        content = np.array([*self.table, 0], np.uint64).tobytes()
        self.moves["records"] = self.machine.allocate(len(content))
        self.machine.write(int(self.moves["records"]), content)
        pieces = up(max(self.longest, 1), PIECE) // PIECE
        self.moves["pieces"] = pieces
        grid = [max(records * pieces, 1)]
        if records:
            module.launch("echobuf_place_rows", grid, [THREADS], [self.moves.tobytes()])

    def placed(self) -> bytes:
        return self.machine.read(self.base, self.size)


def random_rows(seed: int, length: int) -> Rows:
    chance = random.Random(seed)
    sizes = [
        chance.choice([1, 2, 3, 4, 6, 8, 12, 40]) for _ in range(chance.randint(1, 3))
    ]
    leaves = [chance.randrange(len(sizes)) for _ in range(chance.randint(1, 4))]
    rows = Rows(Machine(seed), chance, chance.randint(1, 4), length, sizes, leaves)
    rows.allocate()
    return rows


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_records_are_placed_and_marked(architecture: str) -> None:
    for seed in range(10):
        rows = random_rows(
            ARCHITECTURES.index(architecture) * 100 + seed, 1 + seed * 13
        )
        rows.fill()
        rows.run(rows.machine.load(rows_ptx(architecture)))
        assert rows.placed() == rows.expected, seed


def test_long_records_are_placed_in_pieces() -> None:
    rows = Rows(Machine(3), random.Random(3), 2, 3 * PIECE + 7, [3, 4], [0, 1, 0])
    rows.allocate()
    rows.place(0, 0, PIECE, 1)
    rows.place(0, PIECE, 2 * PIECE + 7, 2)
    rows.place(1, 5, 2 * PIECE + 1, 1)
    rows.run(rows.machine.load(rows_ptx()))
    assert rows.placed() == rows.expected


def test_without_marks_values_alone_are_written() -> None:
    rows = Rows(Machine(4), random.Random(4), 2, 50, [2], [0] * LEAVES)
    rows.allocate()
    rows.moves["marks"] = 0
    rows.fill()
    rows.run(rows.machine.load(rows_ptx()))
    assert rows.placed() == rows.expected
    marks = int(rows.moves["segments"])
    assert set(rows.expected[marks:]) == {SENTINEL}
    assert set(rows.expected[:marks]) != {SENTINEL}


def test_a_write_behind_the_block_would_be_found() -> None:
    rows = Rows(Machine(5), random.Random(5), 1, 16, [4], [0])
    rows.allocate(short=32)
    rows.place(0, 0, 16, 1)
    with pytest.raises(PtxFaultError, match="echobuf_place_rows"):
        rows.run(rows.machine.load(rows_ptx()))
