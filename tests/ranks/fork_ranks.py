"""Run a program as several ranks, which a process forks that has imported torch.

`python fork_ranks.py FOLDER RANKS MODULES PROGRAM ARGUMENT...`: rank N writes into
N.out and N.err in the folder. Prints the exit codes as JSON. The process has imported
MODULES, too, with commas between them.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from pathlib import Path

import torch.distributed

import echobuf.torch

LOADED = (torch.distributed, echobuf.torch)  # before any rank begins


def begin(rank: int, folder: Path) -> None:
    """Become a rank, which writes into files of its own."""
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(folder / f"{rank}.{name}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)


def fork_ranks(ranks: int, folder: Path, modules: str) -> bool:
    """Return True in each rank, and False where all have ended."""
    for name in filter(None, modules.split(",")):
        importlib.import_module(name)
    gc.freeze()  # no rank, and no child of one, collects what was imported
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            begin(rank, folder)
            return True
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    print(json.dumps([os.waitstatus_to_exitcode(status) for status in statuses]))
    return False


if __name__ == "__main__" and fork_ranks(
    int(sys.argv[2]), Path(sys.argv[1]), sys.argv[3]
):
    # At the top level of the main module, as if it were the interpreter's argument.
    del sys.argv[:4]
    __file__ = sys.argv[0]
    sys.path[0] = str(Path(__file__).parent)
    code = Path(__file__).read_bytes()
    exec(compile(code, __file__, "exec", dont_inherit=True))
