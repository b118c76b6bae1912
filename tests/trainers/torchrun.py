"""Programs in two processes, started as a user would."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import echobuf
from run_program import run_program


def run(program: Path, folder: Path) -> None:
    """Runs it with `torchrun`, with the folder as its argument."""
    command = [sys.executable, "-m", "torch.distributed.run"]
    command += ["--standalone", "--nproc-per-node=2", str(program), str(folder)]
    here = Path(__file__).parent
    path = [str(here), str(here.parent), str(Path(echobuf.__file__).parents[1])]
    path += filter(None, [os.environ.get("PYTHONPATH")])
    names = {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    run_program(command, names)


def write(folder: str, result: Any) -> None:
    """Called by each process, for `result`."""
    rank = int(os.environ["RANK"])
    (Path(folder) / f"rank{rank}.json").write_text(json.dumps(result))


def result(folder: Path, rank: int) -> Any:
    """Return the output of that process."""
    return json.loads((folder / f"rank{rank}.json").read_text())
