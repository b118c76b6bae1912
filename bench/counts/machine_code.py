"""Kernels as ptxas makes them: what a thread takes, and its accesses to memory."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from echobuf.cuda import nvrtc

# "/*0090*/  @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;"
_INSTRUCTION = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\w[\w.]*)\s*([^;]*);")
_FUNCTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)", re.MULTILINE)
_LABEL = re.compile(r"^\s*\.L_\w+:")
_REGISTER = re.compile(r"\bR(\d+)\b")
_ENDS_A_RUN = ("BRA", "BAR", "EXIT", "RET", "CALL", "BSYNC", "BSSY")


@dataclass(frozen=True)
class Code:
    """A kernel's machine code.

    Attributes:
        registers: of a thread.
        stack_bytes: of a thread's frame.
        spill_bytes: stored and loaded.
        shared_bytes: of a block.
        loads: how many instructions of each width in bytes load from global memory.
        stores: the same of stores.
        bytes_in_flight: the most that a thread asks for before it uses any of it.
    """

    registers: int
    stack_bytes: int
    spill_bytes: int
    shared_bytes: int
    loads: dict[int, int]
    stores: dict[int, int]
    bytes_in_flight: int


def codes_of(text: str, architecture: str, options: Sequence[str]) -> dict[str, Code]:
    """Compile a source for a real architecture, and read the code of its kernels.

    Args:
        text: the source.
        architecture: such as "sm_90".
        options: of the compiler.
    """
    cubin, usages = _compiled(text, architecture, options)
    sections = dict(_sections(disassembled(cubin)))
    return {
        name: Code(**usage, **accesses(sections[name]))
        for name, usage in usages.items()
    }


def usages_of(
    text: str, architecture: str, options: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Compile a source likewise, and return the first four attributes of each Code."""
    return _compiled(text, architecture, options)[1]


def _compiled(
    text: str, architecture: str, options: Sequence[str]
) -> tuple[bytes, dict[str, dict[str, int]]]:
    options = (*options, f"-arch={architecture}", "--ptxas-options=-v")
    with nvrtc.program(text, options) as read:
        return read("CUBIN"), dict(_usages(nvrtc.text_of(read("ProgramLog"))))


def disassembled(cubin: bytes) -> str:
    """Return the assembly of a cubin, by nvdisasm of the package of that name."""
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [path for folder in folders for path in Path(folder).rglob("bin/nvdisasm")]
    if not found:
        raise SystemExit("pip install nvidia-cuda-nvdisasm: there is no nvdisasm.")
    found[0].chmod(0o755)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(found[0]), "-c", file.name]
        return subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout


def _sections(assembly: str) -> Iterator[tuple[str, str]]:
    starts = list(_FUNCTION.finditer(assembly))
    ends = [start.start() for start in starts[1:]] + [len(assembly)]
    for start, end in zip(starts, ends, strict=True):
        yield start[1], assembly[start.end() : end]


def _usages(log: str) -> Iterator[tuple[str, dict[str, int]]]:
    for part in log.split("Compiling entry function '")[1:]:
        registers = re.search(r"Used (\d+) registers", part)
        stack = re.search(r"(\d+) bytes stack frame", part)
        shared = re.search(r"(\d+) bytes smem", part)
        spills = re.findall(r"(\d+) bytes spill", part)
        assert registers is not None
        yield (
            part.partition("'")[0],
            {
                "registers": int(registers[1]),
                "stack_bytes": int(stack[1]) if stack else 0,
                "spill_bytes": sum(map(int, spills)),
                "shared_bytes": int(shared[1]) if shared else 0,
            },
        )


def accesses(assembly: str) -> dict[str, object]:
    """Count the accesses to global memory in the assembly of one kernel."""
    loads: dict[int, int] = {}
    stores: dict[int, int] = {}
    most, asked = 0, 0
    pending: set[int] = set()  # registers that are being loaded
    for line in assembly.splitlines():
        if _LABEL.match(line):
            pending, asked = set(), 0
        match = _INSTRUCTION.search(line)
        if match is None:
            continue
        name, operands = match[1], match[2]
        if name.startswith(_ENDS_A_RUN):
            pending, asked = set(), 0
            continue
        load = name.split(".")[0] in ("LDG", "LD")
        used = operands.partition(",")[2] if load else operands
        if pending & {int(number) for number in _REGISTER.findall(used)}:
            pending, asked = set(), 0
        width = _width(name)
        if load:
            loads[width] = loads.get(width, 0) + 1
            first = _REGISTER.match(operands.strip())
            if first is not None:
                begin = int(first[1])
                pending |= set(range(begin, begin + max(width // 4, 1)))
            asked += width
            most = max(most, asked)
        elif name.split(".")[0] in ("STG", "ST"):
            stores[width] = stores.get(width, 0) + 1
    return {"loads": loads, "stores": stores, "bytes_in_flight": most}


def _width(name: str) -> int:
    """Return the bytes that a thread moves with an instruction such as LDG.E.128."""
    parts = name.split(".")
    for bits in (256, 128, 64):
        if str(bits) in parts:
            return bits // 8
    if "U8" in parts or "S8" in parts:
        return 1
    if "U16" in parts or "S16" in parts:
        return 2
    return 4


# A multiprocessor of compute capability 9.0, by the CUDA C++ Programming Guide.
_THREADS, _BLOCKS, _REGISTERS, _SHARED = 2048, 32, 65536, 228 * 1024
_REGISTERS_AT_ONCE, _SHARED_OF_THE_SYSTEM = 256, 1024  # of a warp; of a block


def blocks_at_once(code: Code, threads: int) -> int:
    """Return how many blocks a multiprocessor of sm_90 has room for."""
    warps = -(-threads // 32)
    of_a_warp = -(-code.registers * 32 // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    by_registers = _REGISTERS // of_a_warp // warps
    by_shared = _SHARED // (code.shared_bytes + _SHARED_OF_THE_SYSTEM)
    return min(_BLOCKS, _THREADS // (warps * 32), by_registers, by_shared)
