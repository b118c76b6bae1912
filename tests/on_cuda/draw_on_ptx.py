"""Draws as launches of the kernels in draw.cu, and the batches that they must make."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from permutation_reference import permutation_key, permute, radices, rounds_for
from ptx_machine import Counts, Machine, Module
from transform_reference import draws
from transform_reference.words import Draw as Chance
from transform_reference.words import epoch_key

FIELDS, PARTS, THREADS, TILE, WARP = 32, 8, 256, 64, 32
WORDS_OF_BLOCK = THREADS * 8
EPOCH, FIRST_DRAW = 3, 2**32 - 7

FIELD = np.dtype(
    [
        ("leaf", "u8"),
        ("bytes", "u8"),
        ("offset", "u8"),
        ("words", "u8"),
        ("scalar", "u8"),
    ]
)
KIND = np.dtype(
    [("words", "u8"), ("piece", "u8"), ("begin", "u4"), ("reciprocal", "u4")]
)
LAYOUT = np.dtype(
    [
        ("stride", "u8"),
        *(
            (name, "u4")
            for name in ("row", "count", "mix", "tile", "pieces", "threads")
        ),
        ("whole", KIND),
        ("other", KIND),
        ("field", FIELD, FIELDS),
    ]
)
PART = np.dtype(
    [
        *((name, "u4") for name in ("size", "left", "right", "reciprocal", "shift")),
        ("rounds", "u4"),
        ("key", "u4", 16),
        *((name, "u8") for name in ("slots", "capacity", "first")),
        *((name, "u4") for name in ("row", "offset", "count", "partner")),
    ]
)
PARTS_OF_BATCH = np.dtype(
    [
        ("first", "u4"),
        ("count", "u4"),
        ("key", "u4", 2),
        ("draw", "u8"),
        ("records", "u8"),
        ("echoes", "u8"),
        ("part", PART, PARTS),
    ]
)


@dataclass
class Shape:
    """A batch: fields of records, and parts of passes that it is made of.

    Attributes:
        sizes: bytes of each field.
        skews: of each leaf, how far it begins behind an aligned address.
        passes: of each part, the records of its pass, the first and the count drawn.
        before: rows of the batch that another launch draws.
        least_blocks: that are wanted, if there are so many rows, or words for them.
        listed: the parts that list the slots of their records.
    """

    sizes: list[int]
    skews: list[int]
    passes: list[tuple[int, int, int]]
    seed: int
    before: int = 0
    least_blocks: int = 0
    listed: frozenset[int] = frozenset()

    @property
    def count(self) -> int:
        return sum(count for _, _, count in self.passes)


def random_shape(seed: int) -> Shape:
    chance = random.Random(seed)
    sizes = [
        chance.choice([1, 2, 4, 8, 3, 7, 16, 17, 48, 64, 100, 160, 1000, 4096, 5000])
        for _ in range(chance.randint(1, 4))
    ]
    skews = [chance.choice([0, 0, 0, 1, 8, 13]) for _ in sizes]
    if seed % 5 == 4:
        sizes[0] = 70_001 - seed % 2  # more than a block has
    passes = []
    for _ in range(chance.randint(1, 5)):
        records = chance.randint(1, 300)
        first = chance.randrange(records)
        passes.append((records, first, chance.randint(1, min(records - first, 40))))
    before, least_blocks = chance.choice([0, 0, 3]), chance.choice([0, 8, 264])
    return Shape(sizes, skews, passes, seed, before, least_blocks)


def is_scalar(address: int, size: int) -> bool:
    return size in (1, 2, 4, 8) and address % size == 0


def is_whole(address: int, size: int) -> bool:
    return size % 16 == 0 and address % 16 == 0


def words_of(address: int, size: int) -> int:
    if is_whole(address, size):
        return size // 16
    return 1 if is_scalar(address, size) else (size + 30) // 16


@dataclass
class Draw:
    """A shape on a machine: its memory, its launches, and what they must write."""

    machine: Machine
    shape: Shape
    short: int = 0  # bytes that the last leaf lacks
    leaves: list[tuple[int, int]] = field(default_factory=list)  # address, bytes

    def __post_init__(self) -> None:
        shape = self.shape
        offsets = np.cumsum([0, *(-(-size // 16) * 16 for size in shape.sizes)])
        self.stride = int(offsets[-1])
        self.offsets = offsets[:-1]
        rows = shape.before + shape.count
        for size, skew in zip(shape.sizes, shape.skews, strict=True):
            missing = self.short if len(self.leaves) + 1 == len(shape.sizes) else 0
            address = self.machine.allocate(skew + rows * size - missing) + skew
            self.leaves.append((address, size))
        chance = np.random.default_rng(shape.seed)
        self.slots = []  # address and content of each part's window
        for records, _, _ in shape.passes:
            content = chance.integers(0, 256, (records + 2, self.stride), np.uint8)
            address = self.machine.allocate(content.size)
            self.machine.write(address, content.tobytes())
            self.slots.append((address, content))
        self.list = self._list(chance)
        self.parts = self._parts()

    def _list(self, chance: np.random.Generator) -> np.ndarray:
        """The slot of each row of the batch, in the machine's memory."""
        runs = [
            chance.integers(0, records + 2, count, np.uint32)
            for records, _, count in self.shape.passes
        ]
        slots = np.concatenate([np.zeros(self.shape.before, np.uint32), *runs])
        self.list_address = self.machine.allocate(slots.nbytes)
        self.machine.write(self.list_address, slots.tobytes())
        return slots

    def _parts(self) -> np.ndarray:
        parts = np.zeros(len(self.shape.passes), PART)
        row = self.shape.before
        for i, (records, offset, count) in enumerate(self.shape.passes):
            left, right = radices(records)
            log = max((left - 1).bit_length(), 1)
            parts[i] = (
                *(records, left, right, (1 << (31 + log)) // left + 1, log - 1),
                rounds_for(records),
                permutation_key(self.shape.seed, 1, i),
                *(self.slots[i][0], records + 2, 5 % (records + 2)),
                *(row, offset, count, 0),
            )
            if i in self.shape.listed:
                parts[i]["capacity"], parts[i]["first"] = 0, self.list_address
                parts[i]["offset"] = row
            row += count
        return parts

    def layout(self) -> tuple[np.ndarray, int]:
        """The layout, as `cuda/draw_launch.hpp` spreads it, and the blocks."""
        layout = np.zeros((), LAYOUT)
        count, least = self.shape.count, self.shape.least_blocks
        n = 0
        for wanted in (True, False):
            kind = layout["whole" if wanted else "other"]
            kind["begin"] = n
            for (leaf, size), offset in zip(self.leaves, self.offsets, strict=True):
                if is_whole(leaf, size) == wanted:
                    kind["words"] += words_of(leaf, size)
                    scalar = is_scalar(leaf, size)
                    layout["field"][n] = (leaf, size, offset, kind["words"], scalar)
                    n += 1
        words = int(layout["whole"]["words"] + layout["other"]["words"])
        tile = max(1, min(WORDS_OF_BLOCK // words, TILE, count // max(least, 1)))
        tiles = -(-count // tile)
        most = max(int(layout["whole"]["words"]), int(layout["other"]["words"]))
        cuts = max(-(-most * tile // WORDS_OF_BLOCK), -(-least // tiles), 1)
        pieces, busy = 1, tile
        whole = layout["whole"]
        for kind in (whole, layout["other"]):
            all_words = int(kind["words"]) * tile
            rounds = max(1, -(-all_words // (cuts * THREADS)))
            kind["piece"] = rounds * THREADS
            if tile > 1 and all_words:
                kind["reciprocal"] = -(-(2**31) // int(kind["words"]))
            pieces = max(pieces, -(-all_words // int(kind["piece"])))
            at_once = 4 if kind is whole else 1
            busy = max(busy, min(all_words, int(kind["piece"])) // at_once)
        layout["stride"], layout["row"] = self.stride, self.shape.before
        layout["count"], layout["tile"], layout["pieces"] = count, tile, pieces
        layout["threads"] = min(THREADS, -(-busy // WARP) * WARP)
        return layout, tiles * pieces

    def by_value(self) -> bytes:
        parts = np.zeros((), PARTS_OF_BATCH)
        parts["count"], parts["draw"] = len(self.parts), FIRST_DRAW
        parts["key"] = epoch_key(self.shape.seed, EPOCH)
        parts["part"][: len(self.parts)] = self.parts
        return parts.tobytes()

    def run(self, module: Module, **settings: int) -> Counts:
        layout, blocks = self.layout()
        arguments = [layout.tobytes(), self.by_value()]
        threads = [int(layout["threads"])]
        return module.launch("echobuf_draw", [blocks], threads, arguments, **settings)

    def run_planned(self, module: Module, **settings: int) -> None:
        """Writes a plan on the device, and draws what it says."""
        header = PARTS_OF_BATCH.fields["part"][1]
        plan = self.machine.allocate(header + len(self.parts) * PART.itemsize)
        address = plan.to_bytes(8, "little")
        module.launch("echobuf_plan", [1], [PARTS], [self.by_value(), address])
        layout, blocks = self.layout()
        threads = [int(layout["threads"])]
        arguments = [layout.tobytes(), address]
        name = "echobuf_draw_planned"
        module.launch(name, [blocks], threads, arguments, **settings)

    def run_partners(self, module: Module, operation: int) -> None:
        """Draw the partners that an operation chooses."""
        layout, blocks = self.layout()
        layout["mix"] = operation
        arguments = [layout.tobytes(), self.by_value()]
        threads = [int(layout["threads"])]
        module.launch("echobuf_draw_partners", [blocks], threads, arguments)

    def expected(self) -> list[bytes]:
        """The rows of each leaf, from the permutation's reference alone."""
        return self._leaves(
            [range(first, first + count) for _, first, count in self.shape.passes]
        )

    def expected_partners(self, operation: int) -> list[bytes]:
        """The same for partners, from the reference of chance."""
        places = []
        draw = FIRST_DRAW + self.shape.before
        for records, first, count in self.shape.passes:
            chances = [
                Chance(self.shape.seed, EPOCH, draw + i, operation)
                for i in range(count)
            ]
            draw += count
            places.append(
                [
                    draws.partner(chance, first + i, records) if records > 1 else 0
                    for i, chance in enumerate(chances)
                ]
            )
        return self._leaves(places)

    def _leaves(self, places: Sequence[Iterable[int]]) -> list[bytes]:
        """The rows that lie at places of the passes."""
        rows = []
        first = self.shape.before
        for i, (records, _, count) in enumerate(self.shape.passes):
            key = permutation_key(self.shape.seed, 1, i)
            order = np.array(permute(records, key, 0, records))
            slots = (order[list(places[i])] + 5 % (records + 2)) % (records + 2)
            if i in self.shape.listed:
                slots = self.list[first : first + count]
            rows.append(self.slots[i][1][slots])
            first += count
        batch = np.concatenate(rows)
        return [
            batch[:, at : at + size].tobytes()
            for at, (_, size) in zip(self.offsets, self.leaves, strict=True)
        ]

    def drawn(self) -> list[bytes]:
        before = self.shape.before
        return [
            self.machine.read(leaf + before * size, self.shape.count * size)
            for leaf, size in self.leaves
        ]
