"""Every kernel compiles for every architecture, without spilling; no GPU is needed."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
KERNELS = sorted((ROOT / "cpp" / "kernels").glob("*.cu"))
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")
# No fused multiply-add: the host build, which has none, must agree bit for bit.
OPTIONS = ("-std=c++20", "--fmad=false", "-default-device", "--ptxas-options=-v")


def nvrtc() -> ctypes.CDLL:
    """NVIDIA's run-time compiler, from the package `nvidia-cuda-nvrtc`."""
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [
        path
        for folder in folders
        for path in Path(folder).rglob("libnvrtc.so*")
        if "builtins" not in path.name
    ]
    assert found, "no libnvrtc.so; pip install nvidia-cuda-nvrtc"
    return ctypes.CDLL(str(found[0]))


def compile_kernel(source: Path, architecture: str) -> str:
    """The log of the compiler, with what ptxas says of registers and spills."""
    library = nvrtc()
    program = ctypes.c_void_p()
    created = library.nvrtcCreateProgram(
        ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None
    )
    assert created == 0
    options = (*OPTIONS, f"-arch={architecture}", f"-I{ROOT / 'cpp' / 'include'}")
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    result = library.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    assert result == 0, log.value.decode()
    return log.value.decode()


def test_there_are_kernels():
    assert KERNELS


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.stem)
def test_it_compiles_without_spilling(source, architecture, record_property):
    log = compile_kernel(source, architecture)
    registers = [int(number) for number in re.findall(r"Used (\d+) registers", log)]
    spills = re.findall(r"(\d+) bytes spill", log)
    assert registers
    assert spills
    record_property("registers", registers)
    print(f"{source.name} {architecture}: {registers} registers, spills {spills}")
    assert set(spills) == {"0"}
    # 2,048 threads to a multiprocessor at 32 registers; half of that must be there.
    assert max(registers) <= 64
