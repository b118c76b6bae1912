"""Ranks as processes with a process group, started as by torchrun."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

FORK_RANKS = Path(__file__).with_name("fork_ranks.py")


def run(program, ranks, *arguments, killed=None):
    """Return what each rank of a program has printed, parsed as JSON."""
    with socket.socket() as held, tempfile.TemporaryDirectory() as folder:
        # Bound, and not listened at, until the ranks have ended: so the system gives
        # the port to no other process before rank 0 listens there.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        codes = _run(port, folder, ranks, program, *arguments)
        printed = []
        for rank, code in enumerate(codes):
            out, err = (Path(folder, f"{rank}.{name}") for name in ("out", "err"))
            assert code == (-9 if rank == killed else 0), err.read_text()
            assert "Exception ignored" not in err.read_text()
            lines = out.read_text().splitlines()
            printed.append([json.loads(line) for line in lines])
        return printed


def _run(port, folder, ranks, *command):
    """Return the exit codes of the ranks, which write into files of the folder."""
    process = subprocess.Popen(
        [sys.executable, FORK_RANKS, folder, str(ranks), *map(str, command)],
        env=os.environ
        | {
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
        },
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=240)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return json.loads(out)
