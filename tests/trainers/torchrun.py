"""Programs in two processes, started as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import echobuf


def run(program: Path, folder: Path) -> None:
    """Runs it with `torchrun`, with the folder as its argument."""
    command = [sys.executable, "-m", "torch.distributed.run"]
    command += ["--standalone", "--nproc-per-node=2", str(program), str(folder)]
    path = [str(Path(__file__).parent), str(Path(echobuf.__file__).parents[1])]
    path += filter(None, [os.environ.get("PYTHONPATH")])
    names = {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        command,
        env={**os.environ, **names},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,  # what it printed is shown
        timeout=240,
    )
    assert ran.returncode == 0, ran.stdout[-6000:]


def write(folder: str, result: Any) -> None:
    """Called by each process, for `result`."""
    rank = int(os.environ["RANK"])
    (Path(folder) / f"rank{rank}.json").write_text(json.dumps(result))


def result(folder: Path, rank: int) -> Any:
    """Return the output of that process."""
    return json.loads((folder / f"rank{rank}.json").read_text())
