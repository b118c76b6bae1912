"""What the copies of a draw ask for ahead is in the code that compilers make of them.

GCC leaves out calls of functions that only prefetch (findings/gcc_prefetch_helper.sh).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

import pytest

from echobuf import get_include

PROGRAM = """
#include "echobuf/draw/gather.hpp"
#include "echobuf/draw/rows_copy.hpp"
#include "echobuf/transform/source_rows.hpp"
using namespace echobuf;
void side_by_side_copy(const RowsSideBySide& rows) {
  detail::copy_side_by_side_avx2<true>(rows);
}
void gather(const std::vector<CopiedField>& fields, const SlotView& view,
            const std::uint32_t* order, std::byte* const* leaves) {
  gather_records(fields, 136, view, order, 256, leaves, 0, false);
}
void run(std::byte* to, const std::byte* from, std::size_t bytes, RowsAhead& ahead) {
  detail::copy_run_avx2<false>(to, from, bytes, ahead);
}
void asked(const std::byte* row, std::size_t bytes) { transform::ask_for(row, bytes); }
"""
COMPILERS = {
    os.path.realpath(found): name
    for name in ("c++", "g++", "clang++")
    if (found := shutil.which(name))
}


def prefetches(assembler: str) -> dict[str, int]:
    """Return how many of them are in each function, by its mangled name."""
    found: dict[str, int] = {}
    function = ""
    for line in assembler.splitlines():
        if line.startswith("_Z"):
            function = line.split(":")[0]
            found.setdefault(function, 0)
        elif line.strip().startswith("prefetch"):
            found[function] += 1
    return found


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names instructions of x86")
@pytest.mark.skipif(not COMPILERS, reason="needs a C++ compiler")
@pytest.mark.parametrize("compiler", COMPILERS.values())
def test_what_is_asked_for_is_in_the_code(compiler: str) -> None:
    command = [compiler, "-std=c++20", "-O3", "-DNDEBUG", "-I", get_include()]
    done = subprocess.run(
        [*command, "-S", "-x", "c++", "-", "-o", "-"],
        input=PROGRAM,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = prefetches(done.stdout)
    for name in ("copy_side_by_side_avx2", "copy_run_avx2", "gather", "ask_for|asked"):
        assert any(
            count > 0 and any(part in function for part in name.split("|"))
            for function, count in found.items()
        ), (name, found)
