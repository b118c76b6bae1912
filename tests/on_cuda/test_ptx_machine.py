"""The draw kernels that ship, compiled by NVRTC and executed; no GPU is needed."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

import pytest

import longer_ptx
from draw_on_ptx import Draw, Shape, random_shape
from echobuf.cuda.codegen import DRAW_OPTIONS
from kernels_compiled import ARCHITECTURES, ROOT, ptx_of
from ptx_machine import Machine, PtxFaultError, PtxHostError, PtxParseError

SOURCE = (ROOT / "cpp" / "kernels" / "draw.cu").read_text()
NO_BARRIERS = "#define __syncthreads()\n" + SOURCE
PLAIN = Shape([8, 100, 48], [0, 1, 0], [(50, 10, 30), (7, 0, 7)], seed=3)


@functools.cache
def draw_ptx(architecture="sm_90", source=SOURCE):
    return ptx_of(source, architecture, DRAW_OPTIONS)


def on_machine(shape, seed=0, text=None, **settings):
    machine = Machine(seed)
    draw = Draw(machine, shape, **settings)
    return draw, machine.load(text or draw_ptx())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_shapes_are_drawn_as_the_reference_says(architecture):
    for seed in range(15):
        shape = random_shape(ARCHITECTURES.index(architecture) * 100 + seed)
        draw, module = on_machine(shape, seed, draw_ptx(architecture))
        draw.run(module)
        assert draw.drawn() == draw.expected(), shape


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_is_written_and_drawn(seed):
    draw, module = on_machine(random_shape(1000 + seed), seed)
    draw.run_planned(module)
    assert draw.drawn() == draw.expected()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_records_that_are_listed_are_drawn(architecture):
    for seed in range(8):
        of_passes = random_shape(3000 + seed)
        count = len(of_passes.passes)
        listed = frozenset(range(seed % 2, count, 1 + seed % 3))
        shape = replace(of_passes, listed=listed)
        draw, module = on_machine(shape, seed, draw_ptx(architecture))
        draw.run(module)
        assert draw.drawn() == draw.expected(), shape
        draw, module = on_machine(shape, seed, draw_ptx(architecture))
        draw.run_planned(module)
        assert draw.drawn() == draw.expected(), shape


@pytest.mark.parametrize("operation", [0, 7, 0x8001])
@pytest.mark.parametrize("seed", range(4))
def test_partners_are_those_of_the_reference(seed, operation):
    draw, module = on_machine(random_shape(2000 + seed), seed)
    draw.run_partners(module, operation)
    assert draw.drawn() == draw.expected_partners(operation)


def test_the_longer_run_finds_what_is_wrong(monkeypatch):
    assert list(longer_ptx.wrong(1, 30)) == []
    source = SOURCE.replace("draw<false>(layout, parts, parts.count)", "")
    monkeypatch.setattr(longer_ptx, "SOURCE", source)
    assert [text.partition(":")[0] for text in longer_ptx.wrong(1, 34)] == [
        "seed 34, draw"
    ]


def test_a_barrier_that_is_left_out_is_found():
    for seed in range(4):
        draw, module = on_machine(PLAIN, seed, draw_ptx(source=NO_BARRIERS))
        with pytest.raises(PtxFaultError) as found:
            draw.run(module)
        assert found.value.kind in ("race", "unwritten memory")
        assert re.search(
            r"echobuf_draw, line \d+ \((ld|st)[.\w]*\), block \(\d+, 0, 0\), "
            r"thread \(\d+, 0, 0\): .* address 0x",
            str(found.value),
        )


@pytest.mark.parametrize("size", [1, 8, 16, 100, 5000])
def test_a_leaf_that_is_one_byte_short_is_found(size):
    shape = Shape([16, size], [0, 0], [(50, 10, 30)], seed=3)
    draw, module = on_machine(shape, short=1)
    with pytest.raises(PtxFaultError, match=r"^out of bounds: .*allocation 2,"):
        draw.run(module)


def test_slots_that_were_freed_are_found():
    draw, module = on_machine(PLAIN)
    draw.machine.free(draw.slots[0][0])
    with pytest.raises(PtxFaultError, match=r"^use after free: "):
        draw.run(module)


def test_slots_that_nothing_has_written_are_found():
    draw, module = on_machine(PLAIN)
    draw.parts["slots"] = draw.machine.allocate(draw.slots[0][1].size)
    with pytest.raises(PtxFaultError, match=r"^unwritten memory: "):
        draw.run(module)


def test_two_launches_into_one_leaf_are_in_order():
    draw, module = on_machine(PLAIN)
    draw.run(module)
    draw.run(module)
    assert draw.drawn() == draw.expected()


def test_a_batch_that_is_not_drawn_has_no_bytes():
    draw, _ = on_machine(PLAIN)
    with pytest.raises(PtxHostError, match=r"never written"):
        draw.drawn()


def test_a_limit_ends_a_launch():
    draw, module = on_machine(PLAIN)
    with pytest.raises(
        PtxFaultError, match=r"^limit of instructions: .* 100 instructions"
    ):
        draw.run(module, most_instructions=100)


def test_traffic_is_counted_in_sectors():
    whole = Shape([32 * 16], [0], [(40, 0, 16)], seed=3)
    draw, module = on_machine(whole)
    counts = draw.run(module)
    # 16 rows of 32 words: each warp copies one, a word a thread.
    assert (counts.store_requests, counts.store_bytes) == (16, 16 * 512)
    assert counts.store_sectors * 32 == counts.store_bytes
    assert counts.load_bytes == counts.store_bytes
    assert counts.load_sectors == counts.store_sectors
    assert counts.instructions > 16
    skewed, module = on_machine(Shape([32 * 16], [8], [(40, 0, 16)], seed=3))
    assert skewed.run(module).load_sectors > counts.load_sectors


def test_the_seed_decides_on_the_schedule():
    faults = []
    for seed in (1, 1, 2, 3, 4, 5):
        draw, module = on_machine(PLAIN, seed, draw_ptx(source=NO_BARRIERS))
        with pytest.raises(PtxFaultError) as found:
            draw.run(module)
        faults.append(str(found.value))
    assert faults[0] == faults[1]
    assert len(set(faults)) > 1


def test_launches_that_a_driver_refuses():
    draw, module = on_machine(PLAIN)
    layout, parts = draw.layout()[0].tobytes(), draw.by_value()
    with pytest.raises(PtxHostError, match=r"takes 2 arguments, not 1"):
        module.launch("echobuf_draw", [1], [256], [layout])
    with pytest.raises(PtxHostError, match=r"argument 1 has 1063 bytes.* takes 1064"):
        module.launch("echobuf_draw", [1], [256], [layout, parts[:-1]])
    with pytest.raises(PtxHostError, match=r"512 threads"):
        module.launch("echobuf_draw", [1], [512], [layout, parts])
    for wrong in ([1, 1, 65536], [-1], [1, 1, 1, 1], [2**32 + 1], []):
        with pytest.raises(PtxHostError, match=r"`grid` is|a grid of"):
            module.launch("echobuf_draw", wrong, [256], [layout, parts])
    with pytest.raises(PtxHostError, match=r"a block of \(1, 1, 128\) threads"):
        module.launch("echobuf_draw", [1], [1, 1, 128], [layout, parts])
    with pytest.raises(PtxHostError, match=r"no kernel"):
        module.launch("echobuf", [1], [256], [layout, parts])


def test_texts_that_are_no_ptx():
    text = draw_ptx()
    machine = Machine()
    for end in range(500, len(text) - 100, len(text) // 40):
        with pytest.raises(PtxParseError, match=r"^line \d+: "):
            machine.load(text[:end])
    with pytest.raises(PtxParseError, match=r"unknown opcode bra2"):
        machine.load(text.replace("bra.uni", "bra2.uni", 1))
    with pytest.raises(PtxParseError, match=r"unsupported target sm_70"):
        machine.load(text.replace(".target sm_90", ".target sm_70"))
    with pytest.raises(PtxParseError, match=r"not version: 3\.2"):
        machine.load(re.sub(r"\.version .*", ".version 3.2", text))
