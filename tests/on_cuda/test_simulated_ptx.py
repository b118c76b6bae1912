"""The simulated driver runs compiled kernels; draws are those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from echobuf.cuda import codegen
from echobuf.errors import DeviceError, OptionError
from echobuf.testing import SimulationError, simulated_cuda
from kernels_compiled import ARCHITECTURES
from test_loader_stateful import Tape, check_reads, make, walk

SPEC = {
    "image": echobuf.Field((7, 5, 3), np.uint8),
    "wave": echobuf.Field((11,), np.float32),
    "label": echobuf.Field((), np.int64),
}


def examples(count):
    chance = np.random.default_rng(3)
    return {
        "image": chance.integers(0, 256, (count, 7, 5, 3), np.uint8),
        "wave": chance.random((count, 11), np.float32),
        "label": np.arange(count),
    }


def drawn(device, **options):
    options = {"batch_size": 8, "window": 24, "factor": 2, "seed": 5} | options
    with echobuf.EchoBuffer(SPEC, device=device, **options) as buffer:
        buffer.put_batch(examples(24))
        buffer.close()
        return [
            {name: np.array(leaf).tobytes() for name, leaf in batch.items()}
            for batch in buffer
        ]


def changed(monkeypatch, part, by):
    """Compiles a draw.cu that is changed."""
    text = codegen.draw_source()
    assert part in text
    monkeypatch.setattr(
        "echobuf.cuda.simulated.draw_source", lambda: text.replace(part, by)
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_draws_are_those_of_the_cpu(seed):
    with simulated_cuda(seed, kernels="ptx"):
        on_device = drawn("cuda")
    assert on_device == drawn("cpu")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "chain",
    [
        [t.RandomCrop(5), t.RandomHorizontalFlip(), t.ToDtype("float16")],
        [
            t.RandomResizedCrop(6),
            t.ToDtype(np.float32),
            t.Normalize([99.0] * 3, [9.0] * 3),
        ],
        [t.ColorJitter(0.3, 0.3, 0.3), t.ToDtype(np.float32, scale=True)],
    ],
    ids=["crop", "resized", "jittered"],
)
def test_chains_are_those_of_the_cpu(chain, architecture, monkeypatch):
    monkeypatch.setattr("echobuf.cuda.simulated.PTX_ARCHITECTURE", architecture)
    transform = {"image": chain}
    with simulated_cuda(1, kernels="ptx"):
        on_device = drawn("cuda", transform=transform)
    assert on_device == drawn("cpu", transform=transform)


def test_a_barrier_that_is_left_out_is_reported(monkeypatch):
    include = '#include "echobuf/draw/draw_kernel.hpp"'
    changed(monkeypatch, include, f"#define __syncthreads()\n{include}")
    with pytest.raises(SimulationError) as found, simulated_cuda(1, kernels="ptx"):
        drawn("cuda")
    kinds = {report.partition(":")[0] for report in found.value.reports}
    assert kinds <= {"race", "unwritten memory"}
    assert all("echobuf_draw, line " in report for report in found.value.reports)


def test_a_kernel_that_never_ends_is_ended(monkeypatch):
    monkeypatch.setattr("echobuf.cuda.simulated.MOST_INSTRUCTIONS", 100_000)
    start = "echobuf::uint32_t count) {"
    endless = f"{start}\n  while (count != 0) __syncthreads();"
    changed(monkeypatch, start, endless)
    with pytest.raises(SimulationError) as found, simulated_cuda(1, kernels="ptx"):
        drawn("cuda", factor=1)
    assert all(
        report.startswith("limit of instructions: echobuf_draw, line ")
        and report.endswith("the warps have run 100000 instructions")
        for report in found.value.reports
    )


def test_wrong_kernels_draw_other_batches(monkeypatch):
    changed(monkeypatch, "draw<false>(layout, parts, parts.count)", "")
    with simulated_cuda(1, kernels="ptx"):
        on_device = drawn("cuda")
    assert on_device != drawn("cpu")


def test_arguments_of_another_layout_are_refused(monkeypatch):
    changed(
        monkeypatch,
        "const __grid_constant__ echobuf::DrawParts parts) {\n  draw<false>",
        "const __grid_constant__ echobuf::DrawParts parts, const int) {\n  draw<false>",
    )
    with (
        simulated_cuda(1, kernels="ptx"),
        pytest.raises(
            DeviceError, match="echobuf_draw: its arguments have other sizes"
        ),
    ):
        drawn("cuda")


def test_kernels_are_host_or_ptx():
    with (
        pytest.raises(OptionError, match="`kernels` is 'cuda'"),
        simulated_cuda(1, "cuda"),
    ):
        pass


def test_a_loader_that_draws_slowly_keeps_the_states_that_it_needs():
    kwargs = {"window": 6, "factor": 2, "batch_size": 3, "device": "cuda"}
    with simulated_cuda(1, kernels="ptx"):
        _, saved = walk(make(Tape(72, 24), "batches", **kwargs), 1)
        for state in saved[:-1:5]:
            tape = Tape(72, 24)
            resumed = make(tape, "batches", **kwargs)
            resumed.load_state_dict(state)
            list(resumed)
            check_reads(tape, state, 24, "batches")
