"""The simulated driver runs compiled kernels; draws are those of the CPU."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import echobuf
from chains_on_devices import bits
from echobuf import Field
from echobuf.cuda import codegen
from echobuf.errors import DeviceError, OptionError
from echobuf.testing import SimulationError, simulated_cuda
from helpers import WAIT_S, Worker
from kernels_compiled import ARCHITECTURES
from ragged_graph_memory import on_device
from test_loader_stateful import Tape, check_reads, make, walk

SIZES = [1, 2, 3, 4, 7, 8, 16, 17, 48, 64, 100, 160, 1000, 4096, 5000]
ITEMS = ["u1", "i2", "f4", "i8"]


def random_records(dice: random.Random) -> tuple[dict[str, Field], dict[str, Any]]:
    """Fields of any sizes, one larger than a block has; some of the records expire."""
    sizes = [dice.choice(SIZES) for _ in range(dice.randint(1, 4))]
    window = dice.randint(2, 24)
    if dice.random() < 0.2:
        sizes[0], window = 70_001 - dice.randint(0, 1), 2
    spec = {f"field {i}": Field((size,), np.uint8) for i, size in enumerate(sizes)}
    factor = dice.choice([factor for factor in (1, 2, 2.5, 3) if factor <= window])
    most = window if factor != 2.5 else 2 * (window // 3)
    options = {
        "window": window,
        "batch_size": dice.randint(1, max(1, most)),
        "factor": factor if most else 2,
    }
    if dice.random() < 0.3:
        options |= {"max_staleness": 4, "with_info": True}
    return spec, options


def random_rows(dice: random.Random) -> tuple[dict[str, Field], dict[str, Any]]:
    """Leaves whose examples differ in length, in each of the forms."""
    spec = {
        f"leaf {i}": Field(
            (None, *dice.choice([(), (3,), (2, 5), (75,)])), dice.choice(ITEMS)
        )
        for i in range(dice.randint(1, 4))
    }
    options = {"window": 12, "batch_size": dice.randint(1, 7), "factor": 2}
    options["payload_bytes"] = 500_000
    form = dice.choice(["packed", "padded", "multiples", "bounded", "rows"])
    options |= {
        "packed": {},
        "padded": {"ragged": "padded", "pad_value": 3},
        "multiples": {"pad_to": 16, "pad_value": 1},
        "bounded": {"max_rows": 150, "batch_size": None},
        "rows": {"pack_to": 90},
    }[form]
    return spec, options


def records(spec: dict[str, Field], count: int) -> list[dict[str, np.ndarray]]:
    """Return records; what is ragged has up to 70 rows, as many in all leaves."""
    random_bytes = np.random.default_rng(count)
    made = []
    for number in range(count):
        rows = [0, 1, 7, 30, 70][number * 3 % 5]
        shapes = {
            name: [rows if axis is None else axis for axis in field.shape]
            for name, field in spec.items()
        }
        made.append(
            {
                name: random_bytes.integers(0, 127, shapes[name]).astype(field.dtype)
                for name, field in spec.items()
            }
        )
    return made


def drawn(
    device: str,
    spec: dict[str, Field],
    out: Any = None,
    read: Callable[[Any], Any] = bits,
    **options: Any,
) -> list[Any]:
    """Read all batches of an epoch, which are drawn into `out` if it is given."""
    options = {"batch_size": 8, "window": 24, "factor": 2, "seed": 5} | options
    expires = "max_staleness" in options

    def feed() -> None:
        for number, record in enumerate(made):
            version = {"version": number // 3} if expires else {}
            buffer.put(record, timeout=WAIT_S, **version)
        buffer.close()

    # What has expired depends on what was put before a draw: all, where records expire.
    made = records(spec, options["window"] + (0 if expires else 5))
    with echobuf.EchoBuffer(spec, device=device, **options) as buffer:
        feeder = Worker(feed)
        if expires:
            feeder.result()
        batches = []
        with contextlib.suppress(StopIteration):
            while True:
                batch = buffer.next_batch(out, timeout=WAIT_S)
                batches.append(read(batch[0] if expires else batch))
        feeder.result()
    return batches


@pytest.mark.parametrize("case", [random_records, random_rows])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_draws_are_those_of_the_cpu(case, architecture, monkeypatch):
    monkeypatch.setattr("echobuf.cuda.simulated.PTX_ARCHITECTURE", architecture)
    for seed in range(5):
        dice = random.Random(ARCHITECTURES.index(architecture) * 100 + seed)
        spec, options = case(dice)
        on_host = drawn("cpu", spec, **options)
        with simulated_cuda(seed, kernels="ptx"):
            assert drawn("cuda", spec, **options) == on_host, (spec, options)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_100"])
def test_draws_go_to_any_address(architecture, monkeypatch):
    monkeypatch.setattr("echobuf.cuda.simulated.PTX_ARCHITECTURE", architecture)
    for seed in range(8):
        dice = random.Random(seed)
        sizes = [dice.choice(SIZES) for _ in range(3)]
        spec = {f"field {size}": Field((size,), np.uint8) for size in sizes}
        options = {"batch_size": 5, "window": 11, "seed": seed}
        on_host = drawn("cpu", spec, **options)
        with simulated_cuda(seed, kernels="ptx") as simulation:
            memory = [Field((5 * of.shape[0] + 15,), np.uint8) for of in spec.values()]
            out = {
                name: array[skew:][: 5 * of.shape[0]].reshape(5, -1)
                for (name, of), array, skew in zip(
                    spec.items(),
                    on_device(memory, simulation.stream()),
                    dice.sample([0, 1, 8, 13], len(spec)),
                    strict=True,
                )
            }
            assert drawn("cuda", spec, out, **options) == on_host
            del out


@pytest.mark.parametrize("skew", [1, 8, 13])
def test_rows_go_to_any_address(skew):
    def read(batch):
        return [np.array(rows).tobytes() for rows in batch["x"].to_list()]

    spec = {"x": Field((None,), np.uint8)}
    options = {"batch_size": 5, "window": 11, "payload_bytes": 2000, "read": read}
    on_host = drawn("cpu", spec, **options)
    with simulated_cuda(skew, kernels="ptx") as simulation:
        memory = [Field((5 * 70 + skew,), np.uint8), Field((6,), np.int64)]
        values, offsets = on_device(memory, simulation.stream())
        out = {"x": echobuf.Ragged(values[skew:], offsets)}
        assert drawn("cuda", spec, out, **options) == on_host
        del values, offsets, out


# ---- kernels that are wrong

SPEC = {"wave": Field((11,), np.float32), "label": Field((), np.int64)}


def changed(monkeypatch, part, by):
    """Compiles a draw.cu that is changed."""
    text = codegen.draw_source()
    assert part in text
    monkeypatch.setattr(
        "echobuf.cuda.simulated.draw_source", lambda: text.replace(part, by)
    )


def test_a_barrier_that_is_left_out_is_reported(monkeypatch):
    include = '#include "echobuf/draw/draw_kernel.hpp"'
    changed(monkeypatch, include, f"#define __syncthreads()\n{include}")
    with pytest.raises(SimulationError) as found, simulated_cuda(1, kernels="ptx"):
        drawn("cuda", SPEC)
    kinds = {report.partition(":")[0] for report in found.value.reports}
    assert kinds <= {"race", "unwritten memory"}
    assert all("echobuf_draw, line " in report for report in found.value.reports)


def test_a_kernel_that_never_ends_is_ended(monkeypatch):
    monkeypatch.setattr("echobuf.cuda.simulated.MOST_INSTRUCTIONS", 100_000)
    start = "echobuf::uint32_t count) {"
    endless = f"{start}\n  while (count != 0) __syncthreads();"
    changed(monkeypatch, start, endless)
    with pytest.raises(SimulationError) as found, simulated_cuda(1, kernels="ptx"):
        drawn("cuda", SPEC, factor=1)
    assert all(
        report.startswith("limit of instructions: echobuf_draw, line ")
        and report.endswith("the warps have run 100000 instructions")
        for report in found.value.reports
    )


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
        drawn("cuda", SPEC)


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
