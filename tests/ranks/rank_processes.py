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
    printed = run_to_end(program, ranks, *arguments, killed=killed)
    return [[json.loads(line) for line in text.splitlines()] for text in printed]


def run_to_end(program, ranks, *arguments, killed=None, modules=(), names=None):
    """Return what each rank of a program has printed.

    Args:
        program: its file.
        ranks: how many there are.
        *arguments: of the program.
        killed: the rank that is to be killed.
        modules: what is imported before any rank begins.
        names: what the environment has besides.
    """
    with socket.socket() as held, tempfile.TemporaryDirectory() as folder:
        # Bound, and not listened at, until the ranks have ended: so the system gives
        # the port to no other process before rank 0 listens there.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        names = {"MASTER_PORT": str(held.getsockname()[1]), **(names or {})}
        command = [FORK_RANKS, folder, ranks, ",".join(modules), program, *arguments]
        codes = _exit_codes(command, {"WORLD_SIZE": str(ranks), **names})
        for rank, code in enumerate(codes):
            err = Path(folder, f"{rank}.err").read_text()
            assert code == (-9 if rank == killed else 0), err
            assert "Exception ignored" not in err
        return [Path(folder, f"{rank}.out").read_text() for rank in range(ranks)]


def _exit_codes(command, names):
    """Return the exit codes of the ranks."""
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        env=os.environ
        | {
            "MASTER_ADDR": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            **names,
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
