"""NVIDIA's run-time compiler, without CuPy and without a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from echobuf.cuda import nvrtc

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "cpp" / "include"
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")


@dataclass(frozen=True)
class Usage:
    """The resources that one kernel takes."""

    registers: int
    spills: int
    shared_bytes: int


def compile_source(text: str, architecture: str, options: Sequence[str]) -> str:
    """The log of the compiler, with what ptxas says of registers and spills."""
    options = (
        *options,
        "--ptxas-options=-v",
        f"-arch={architecture}",
        f"-I{INCLUDE}",
    )
    with nvrtc.program(text, options) as read:
        return nvrtc.text_of(read("ProgramLog"))


def ptx_of(text: str, architecture: str, options: Sequence[str]) -> str:
    """The PTX that the compiler makes of the headers in the tree."""
    return nvrtc.ptx_of(text, architecture, (*options, f"-I{INCLUDE}"))


def usage(log: str) -> dict[str, Usage]:
    """Return the resources of each kernel, by its name."""
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
