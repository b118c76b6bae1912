"""NVIDIA's run-time compiler, without CuPy and without a GPU."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
INCLUDE = ROOT / "cpp" / "include"
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")


@functools.cache
def nvrtc() -> ctypes.CDLL:
    """The library, from the package `nvidia-cuda-nvrtc`."""
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


@dataclass(frozen=True)
class Usage:
    """What one kernel takes."""

    registers: int
    spills: int
    shared_bytes: int


def compile_source(text: str, architecture: str, options: Sequence[str]) -> str:
    """The log of the compiler, with what ptxas says of registers and spills."""
    options = (*options, "--ptxas-options=-v", f"-arch={architecture}")
    return _compiled(text, options, "ProgramLog")


def ptx_of(text: str, architecture: str, options: Sequence[str]) -> str:
    """Return the PTX that the compiler makes for an architecture such as "sm_90"."""
    virtual = architecture.replace("sm_", "compute_")
    return _compiled(text, (*options, f"-arch={virtual}"), "PTX")


def _compiled(text: str, options: Sequence[str], output: str) -> str:
    """Compile, and return the program's output of this name."""
    library = nvrtc()
    program = ctypes.c_void_p()
    created = library.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None
    )
    assert created == 0
    # As CuPy says, too.
    options = (*options, "-default-device", f"-I{INCLUDE}")
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    result = library.nvrtcCompileProgram(program, len(options), array)

    def read(name: str) -> str:
        size = ctypes.c_size_t()
        getattr(library, f"nvrtcGet{name}Size")(program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{name}")(program, content)
        return content.value.decode()

    try:
        assert result == 0, read("ProgramLog")
        return read(output)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def usage(log: str) -> dict[str, Usage]:
    """What each kernel takes, by its name."""
    found = {}
    for part in log.split("Compiling entry function '")[1:]:
        registers = re.search(r"Used (\d+) registers", part)
        shared = re.search(r"(\d+) bytes smem", part)
        assert registers is not None
        found[part.partition("'")[0]] = Usage(
            registers=int(registers[1]),
            spills=sum(int(n) for n in re.findall(r"(\d+) bytes spill", part)),
            shared_bytes=int(shared[1]) if shared else 0,
        )
    return found
