"""Counts of kernels: what is read from machine code, and what a batch launches."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from scripts import BENCH, importable

ASSEMBLY = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 LDG.E.64 R8, desc[UR4][R2.64+0x10] ;
        /*0030*/                   IADD3 R10, R8, 0x1, RZ ;
        /*0040*/                   LDG.E.U8 R11, desc[UR4][R12.64] ;
        /*0050*/                   STG.E.128 desc[UR4][R14.64], R4 ;
.L_x_1:
        /*0060*/                   LDG.E R16, desc[UR4][R16.64] ;
        /*0070*/                   EXIT ;
"""


@pytest.fixture
def counts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    from counts import cases, machine_code

    yield machine_code, cases
    for name in ("counts", "counts.cases", "counts.launches", "counts.machine_code"):
        sys.modules.pop(name, None)


def test_accesses_are_read_from_the_assembly(counts):
    machine_code, _ = counts
    assert machine_code.accesses(ASSEMBLY) == {
        "loads": {16: 1, 8: 1, 1: 1, 4: 1},
        "stores": {16: 1},
        "bytes_in_flight": 24,  # until the sum needs R8
    }


@pytest.mark.parametrize(
    ("registers", "shared", "blocks"),
    [(32, 512, 8), (33, 512, 6), (64, 512, 4), (128, 512, 2), (32, 60_000, 3)],
)
def test_blocks_at_once_are_those_of_the_occupancy_calculator(
    counts, registers, shared, blocks
):
    machine_code, _ = counts
    code = machine_code.Code(registers, 0, 0, shared, {}, {}, 0)
    assert machine_code.blocks_at_once(code, 256) == blocks


def test_the_table_of_the_docs_is_that_of_the_result_file(monkeypatch):
    with importable(monkeypatch, BENCH) as load:
        markdown = load("kernel_counts").markdown
    results = json.loads((BENCH / "results" / "kernel_counts.json").read_text())
    docs = (BENCH.parent / "docs" / "gpu.md").read_text()
    assert markdown(results["kernels"]) in docs


def test_a_batch_is_counted(counts):
    _, cases = counts
    (launch,) = cases.CASES[0].launches()
    assert launch.kernel == "echobuf_draw"
    assert launch.threads == 32  # a record each, for 132 multiprocessors
    assert launch.blocks == 256
    assert launch.stores.bytes == 256 * 136
    assert launch.loads.bytes >= 256 * 136


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("case", [0, 3, 4, 5])
def test_nothing_of_a_thread_is_in_memory(counts, case, architecture):
    machine_code, cases = counts
    text, options = cases.CASES[case].source()
    kernels = machine_code.usages_of(text, architecture, options)
    assert kernels
    for usage in kernels.values():
        assert usage["stack_bytes"] == usage["spill_bytes"] == 0


def test_the_hosts_time_is_measured_without_a_gpu(tmp_path):
    command = [sys.executable, BENCH / "draw_host_time.py", "--rounds", "1"]
    subprocess.run([*command, "--out", tmp_path], check=True, timeout=120)
    results = json.loads((tmp_path / "draw_host_time.json").read_text())["results"]
    # And a look at the device once in 32 draws. While the thread that uploads has not
    # noticed that all has arrived, draws wait for the upload, too.
    least = {"default stream": 4, "another stream": 6}
    for stream, row in results.items():
        assert int(row["driver_calls"]) - least[stream] in {0, 1}


CALLS_OF_A_PUT = (
    "cuCtxGetCurrent",
    "cuStreamGetCaptureInfo",
    "cuLaunchKernel",
    "cuEventRecord",
)


def test_the_hosts_time_of_a_put_from_the_device_is_measured_without_a_gpu(tmp_path):
    command = [sys.executable, BENCH / "put_device_host_time.py", "--rounds", "2"]
    subprocess.run([*command, "--out", tmp_path], check=True, timeout=120)
    text = (tmp_path / "put_device_host_time.json").read_text()
    results = json.loads(text)["results"]
    assert len(results) == 12
    for row in results:
        # And others now and then, such as a look at the device.
        for call in CALLS_OF_A_PUT:
            assert row["driver_calls"][call] == 1


def test_the_hosts_time_for_ragged_batches_is_measured_without_a_gpu(tmp_path):
    command = [sys.executable, BENCH / "draw_ragged_host_time.py", "--rounds", "1"]
    subprocess.run([*command, "--out", tmp_path], check=True, timeout=120)
    text = (tmp_path / "draw_ragged_host_time.json").read_text()
    results = json.loads(text)["results"]
    assert len(results) == 4
    assert all(row["min_s"] > 0 for row in results.values())
