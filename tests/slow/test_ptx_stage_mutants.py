"""Faults that are put into the kernels of chains are found when they are executed."""

from __future__ import annotations

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from mutated_chains import MutatedChains

SPEC = {
    "image": echobuf.Field((13, 11, 3), np.uint8),
    "label": echobuf.Field((), np.int64),
}
SCALED = t.ToDtype(np.float32, scale=True)
RESIZED = t.RandomResizedCrop((34, 17))  # more than a tile, and than its threads
CHAINS = {
    "bytes": [
        t.RandomCrop((9, 7)),
        t.RandomHorizontalFlip(),
        t.ToDtype("float16"),
        t.Normalize([90.0, 80.0, 70.0], [9.0, 8.0, 7.0]),
    ],
    "padded": [t.RandomCrop((9, 7), padding=3, padding_mode="reflect"), SCALED],
    "mixed": [t.RandomCrop((9, 7)), SCALED, t.MixUp(num_classes=5)],
    "resized": [RESIZED, SCALED],
    "mixed and resized": [RESIZED, SCALED, t.CutMix(num_classes=5)],
    "jittered": [RESIZED, t.ColorJitter(0.4, 0.4, 0.4), SCALED],
    "equalized": [  # two tiles
        t.Resize((90, 100), interpolation="nearest"),
        t.Grayscale(),
        t.Equalize(),
        SCALED,
    ],
    "stretched": [RESIZED, t.AutoContrast(), SCALED],
    "jittered and mixed": [
        t.RandomCrop((9, 7)),
        t.ColorJitter(contrast=0.4),
        SCALED,
        t.MixUp(num_classes=5),
    ],
    "chosen": [
        t.RandomOrder([t.RandomHorizontalFlip(1.0), t.RandomCrop((13, 11), padding=1)]),
        t.RandomApply([t.RandomChoice([t.RandomVerticalFlip(1.0), t.RandomErasing()])]),
        SCALED,
        t.RandomApply([t.MixUp(num_classes=5)]),
    ],
}

FLOW = "include/echobuf/transform/stage_steps.hpp"
STATISTICS = "include/echobuf/transform/statistic_steps.hpp"
STEPS = "include/echobuf/transform/stage_kernel.hpp"
OPS = "include/echobuf/transform/stage_ops.hpp"
TILE = "include/echobuf/transform/tile.hpp"
GATES = "include/echobuf/transform/gates.hpp"
MAPS = "include/echobuf/transform/maps.hpp"
WEIGHTS = "thread, *memory.weights_of(0)); });"

MUTANTS = [  # chain, file, what stands there, what the mutant has
    (
        "mixed",
        FLOW,
        "threads.all([&](uint32_t thread) { find(",
        "threads.last([&](uint32_t thread) { find(",
    ),
    ("bytes", FLOW, "tabulate(thread, memory.table)", "tabulate(0, memory.table)"),
    ("jittered", STATISTICS, "left > 1; left /= 2", "left > 2; left /= 2"),
    ("jittered", STATISTICS, "if (thread < left) sums", "sums"),
    ("jittered", STATISTICS, "sums[0] + sums[1]", "sums[0]"),
    (
        "jittered",
        STATISTICS,
        "threads.all([&](uint32_t thread) { set_mean",
        "threads.last([&](uint32_t thread) { set_mean",
    ),
    (
        "resized",
        FLOW,
        "threads.all( [&](uint32_t thread) { weigh(ops, block, " + WEIGHTS,
        "threads.last([&](uint32_t thread) { weigh(ops, block, " + WEIGHTS,
    ),
    (
        "mixed and resized",
        FLOW,
        "weigh(partner_ops, block, thread, *memory.weights_of(1))",
        "weigh(partner_ops, block, thread, *memory.weights_of(0))",
    ),
    ("jittered", STEPS, "row * a.image_bytes", "(row + 1) * a.image_bytes"),
    ("mixed", STEPS, "who == 1, memory.draws[who]", "who == 0, memory.draws[who]"),
    (
        "resized",
        STEPS,
        "exact::least(top + of.height, extent.height)",
        "top + of.height",
    ),
    ("resized", STEPS, "y += tile.rows()", "y += 1"),
    ("bytes", STEPS, "if (at < block.right) use(at, v[k])", "use(at, v[k])"),
    (
        "jittered",
        STATISTICS,
        "i < block.tile.count(); ++i) sum",
        "i + 1 < block.tile.count(); ++i) sum",
    ),
    (
        "jittered and mixed",
        STATISTICS,
        "uint64_t{who} * a.count + block.row",
        "uint64_t{who} + block.row",
    ),
    ("equalized", STATISTICS, "count += device", "count = device"),
    ("equalized", STATISTICS, "begin += detail::kBytesAtOnce", "begin += 1024"),
    ("equalized", STATISTICS, "i < byte ? count : 0", "i <= byte ? count : 0"),
    ("stretched", STATISTICS, "left > 0; left /= 2", "left > 1; left /= 2"),
    ("stretched", STATISTICS, "if (thread >= left) return;", ""),
    ("stretched", STATISTICS, "i * bytes + channel * sizeof", "i * bytes + sizeof"),
    ("resized", STEPS, "block.left + edge - tile.height", "block.left + edge"),
    ("resized", STEPS, "weights.weight[at + k] = of(k)", "weights.weight[k] = of(k)"),
    ("mixed", STEPS, "to.offset(y, x, c)), v[c])", "to.offset(x, y, c)), v[c])"),
    ("mixed", STEPS, "if (who > 1 || !block", "if (who > 0 || !block"),
    ("bytes", OPS, "table.value[c][thread] =", "table.value[c][thread / 2] ="),
    ("mixed", OPS, "kNumber + (partner", "kNumber + (!partner"),
    ("resized", OPS, "(j - left) * tile.column_taps", "(j - left + 1) * tile.row_taps"),
    (  # unsigned for signed
        "padded",
        MAPS,
        "index = index < 0 ? -index : 2 * size - 2 - index",
        "index = static_cast<uint32_t>(index) < 0u ? -index : 2 * size - 2 - index",
    ),
    (
        "padded",
        MAPS,
        "top + static_cast<int32_t>(down)",
        "static_cast<uint8_t>(top) + static_cast<int32_t>(down)",
    ),
    ("resized", TILE, "kStageThreads) / columns;", "kStageThreads) / columns + 1;"),
    ("chosen", FLOW, "if (!memory.is_gate_open[i])", "if (!memory.is_gate_open[0])"),
    ("chosen", FLOW, "i < a.gates.count; ++i", "i + 1 < a.gates.count; ++i"),
    ("chosen", STEPS, "number, block.partner != 0);", "number, false);"),
    ("chosen", STEPS, "kStageThreads - 1 - thread", "thread / 2"),
    ("chosen", GATES, "gate.number + (partner", "gate.number + (!partner"),
    ("chosen", GATES, "left &= ~(1u << operation);", ""),
]


EXAMPLES = {
    "image": np.random.default_rng(3).integers(0, 256, (9, 13, 11, 3), np.uint8),
    "label": np.arange(9) % 5,
}
KERNELS = MutatedChains(
    SPEC,
    EXAMPLES,
    {name: {"image": chain} for name, chain in CHAINS.items()},
    factor=1,
)


@pytest.mark.parametrize(
    ("chain", "file", "part", "by"), MUTANTS, ids=map(str, range(len(MUTANTS)))
)
def test_a_mutant_is_found(chain, file, part, by, tmp_path, monkeypatch):
    assert KERNELS.find_a_mutant(chain, file, part, by, tmp_path, monkeypatch)


@pytest.mark.parametrize("chain", CHAINS)
def test_without_a_mutant_nothing_is_found(chain):
    assert not KERNELS.find_a_fault(chain)
