"""Faults that are put into the draw kernels are found when their PTX is executed."""

from __future__ import annotations

import re

import pytest

from draw_on_ptx import Draw, random_shape
from echobuf.cuda import nvrtc
from echobuf.cuda.codegen import DRAW_OPTIONS
from echobuf.cuda.ptx import Machine, PtxError
from kernels_compiled import ROOT
from mutated_kernels import mutated

DRAW = "include/echobuf/draw/draw_kernel.hpp"
LAYOUT = "include/echobuf/draw/draw_layout.hpp"
COPY = "include/echobuf/draw/device_copy.hpp"
ORDER = "include/echobuf/schedule/permutation.hpp"
THREADS = "include/echobuf/draw/block_threads.hpp"
ENTRY = "kernels/draw.cu"
BY_VALUE, PLANNED = ("echobuf_draw",), ("echobuf_plan", "echobuf_draw_planned")
MOST_INSTRUCTIONS = 1_000_000  # some seconds; no shape takes as many
BARRIER = "    step(threadIdx.x);\n    __syncthreads();\n"

MUTANTS = [  # file, what stands there, what the mutant has
    (THREADS, BARRIER, "    step(threadIdx.x);\n"),
    (THREADS, BARRIER, "    __syncthreads();\n    step(threadIdx.x);\n"),
    (THREADS, BARRIER, BARRIER.replace("Idx.x", "Idx.x + 1")),
    (DRAW, "threads.all([&]", "threads.last([&]"),
    (DRAW, "i < here.rows; i +=", "i <= here.rows; i +="),
    (DRAW, "parts[middle].row <= row", "parts[middle].row < row"),
    (DRAW, "if (slot >= part.capacity)", "if (slot > part.capacity)"),
    (DRAW, "part.offset + (row - part.row)", "part.offset + row"),
    (DRAW, "kind.reciprocal >> 31", "kind.reciprocal >> 32"),
    (DRAW, "if (a.tile > 1)", "if (a.tile > 8)"),
    (DRAW, "int f = kind.begin", "int f = 0"),
    (DRAW, "word >= a.field[f].words", "word > a.field[f].words"),
    (DRAW, "if (f != kind.begin)", "if (f != 0)"),
    (DRAW, "+ first + row) * field->bytes", "+ row) * field->bytes"),
    (DRAW, "rows[row] + field->offset", "rows[row] + field->words"),
    (DRAW, "left < a.tile ? left : a.tile", "a.tile"),
    (DRAW, "piece(block % a.pieces)", "piece(block % 2)"),
    (DRAW, "here.piece * a.whole.piece", "here.piece * a.tile"),
    (DRAW, "begin + a.whole.piece < all ? begin", "true ? begin"),
    (DRAW, "at += kDrawAtOnce * threads", "at += (kDrawAtOnce + 1) * threads"),
    (DRAW, "k * threads < end) words", "k * threads <= end) words"),
    (DRAW, "k * threads < end) device", "k * threads <= end) device"),
    (DRAW, "to[k] = move.to + move.word", "to[k] = move.to + k + move.word"),
    (DRAW, "begin + a.other.piece < all ? begin", "true ? begin"),
    (DRAW, "here.piece * a.other.piece", "here.piece * a.tile"),
    (DRAW, "at += a.threads", "at += 2 * a.threads"),
    (LAYOUT, "if (thread < parts.count)", "if (thread <= parts.count)"),
    (LAYOUT, "parts.first + parts.count, 0", "parts.first, 0"),
    # Fields that lie elsewhere than on the host.
    (
        LAYOUT,
        "uint32_t row = 0; // of the batch: the first that is drawn "
        "uint32_t count = 0;",
        "uint32_t count = 0; uint32_t row = 0;",
    ),
    (
        LAYOUT,
        "uint32_t row; // of the batch, for the part's first record "
        "uint32_t offset; // of the part in the pass, or in the list",
        "uint32_t offset; uint32_t row;",
    ),
    (
        LAYOUT,
        "uint64_t slots; // address of slot 0 uint64_t capacity;",
        "uint64_t capacity; uint64_t slots;",
    ),
    (COPY, "v2.u64 {%0, %1}, [%2]", "v2.u64 {%1, %0}, [%2]"),
    (COPY, "index * 16 + 16 <= end", "index * 16 + 16 <= end + 1"),
    (COPY, "index * 16 >= lead &&", "index * 16 + 16 > lead &&"),
    (COPY, "skip % 8 * 8", "skip * 8"),
    (COPY, "skip < 8 ? first.high : second.low", "first.high"),
    (COPY, "at < stop; ++at", "at <= stop; ++at"),
    (COPY, "start - skip + 16", "start - skip + 32"),
    (COPY, "store(to, device::load<uint16_t>", "store(to, device::load<uint32_t>"),
    (COPY, "word = to - lead + index", "word = to + index"),
    (ORDER, "while (x >= domain_.size)", "while (x > domain_.size)"),
    (ORDER, "return less < sum ? less : sum", "return less"),
    (ORDER, "index % kPermutationKeyWords]", "index % 8]"),
]


def entries(source, names):
    """Return the source of the kernels with fewer of them: compiling takes the time."""
    parts = re.split(r"^(?=/// )", source, flags=re.MULTILINE)
    kept = [
        part
        for part in parts
        if 'extern "C"' not in part or any(f" {name}(" in part for name in names)
    ]
    assert len(parts) - len(kept) == source.count("__global__") - len(names)
    return "".join(kept)


def finds_a_fault(text, planned):
    """Say if a draw of some random shape ends with an error, or has other bytes."""
    for seed in range(12):
        machine = Machine(seed)
        draw = Draw(machine, random_shape(seed))
        module = machine.load(text)
        try:
            run = draw.run_planned if planned else draw.run
            run(module, most_instructions=MOST_INSTRUCTIONS)
            if draw.drawn() != draw.expected():
                return True
        except PtxError:
            return True
    return False


@pytest.mark.parametrize(
    ("file", "part", "by"), MUTANTS, ids=[str(n) for n in range(len(MUTANTS))]
)
def test_a_mutant_is_found(file, part, by, tmp_path):
    mutated(tmp_path, file, part, by)
    options = (*DRAW_OPTIONS, f"-I{tmp_path / 'include'}")
    planned = file == LAYOUT
    source = entries((tmp_path / ENTRY).read_text(), PLANNED if planned else BY_VALUE)
    assert finds_a_fault(nvrtc.ptx_of(source, "sm_90", options), planned)


def test_without_a_mutant_nothing_is_found():
    options = (*DRAW_OPTIONS, f"-I{ROOT / 'cpp' / 'include'}")
    source = (ROOT / "cpp" / ENTRY).read_text()
    text = nvrtc.ptx_of(source, "sm_90", options)
    assert not finds_a_fault(text, planned=False)
    assert not finds_a_fault(text, planned=True)
