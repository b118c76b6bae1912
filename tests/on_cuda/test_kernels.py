"""Every kernel compiles for every architecture, without spilling; no GPU is needed."""

from __future__ import annotations

import pytest

from echobuf.cuda.codegen import DRAW_OPTIONS
from kernels_compiled import ARCHITECTURES, ROOT, compile_source, usage

KERNELS = sorted((ROOT / "cpp" / "kernels").glob("*.cu"))


def test_there_are_kernels():
    assert KERNELS


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.stem)
def test_kernels_compile_without_spilling(source, architecture, record_property):
    kernels = usage(compile_source(source.read_text(), architecture, DRAW_OPTIONS))
    record_property("kernels", str(kernels))
    print(f"{source.name} {architecture}: {kernels}")
    assert len(kernels) == source.read_text().count("__global__")
    assert {kernel.spills for kernel in kernels.values()} == {0}
    # 2,048 threads to a multiprocessor at 32 registers; half of that must be there.
    assert max(kernel.registers for kernel in kernels.values()) <= 64
