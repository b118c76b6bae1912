"""Programs in two processes, as torchrun starts them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import echobuf
from ranks.rank_processes import run_to_end


def run(program: Path, folder: Path, *modules: str) -> None:
    """Run it on two ranks, with the folder as its argument.

    Args:
        program: its file.
        folder: where each rank leaves its result.
        *modules: what takes seconds to import: both ranks are forked from one that has.
    """
    here = Path(__file__).parent
    path = [str(here), str(here.parent), str(Path(echobuf.__file__).parents[1])]
    path += filter(None, [os.environ.get("PYTHONPATH")])
    names = {"PYTHONPATH": os.pathsep.join(path)}
    run_to_end(program, 2, folder, modules=modules, names=names)


def write(folder: str, result: Any) -> None:
    """Called by each process, for `result`."""
    rank = int(os.environ["RANK"])
    (Path(folder) / f"rank{rank}.json").write_text(json.dumps(result))


def result(folder: Path, rank: int) -> Any:
    """Return the output of that process."""
    return json.loads((folder / f"rank{rank}.json").read_text())
