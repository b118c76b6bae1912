"""Ranks as processes with a process group, started as by torchrun."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys


def run(program, ranks, *arguments, killed=None):
    """Return what each rank of a program has printed, parsed as JSON."""
    with socket.socket() as held:
        # Bound, and not listened at, until the ranks have ended: so the system gives
        # the port to no other process before rank 0 listens there.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        return _run(held.getsockname()[1], program, ranks, arguments, killed)


def _run(port, program, ranks, arguments, killed):
    processes = [
        subprocess.Popen(
            [sys.executable, str(program), *map(str, arguments)],
            env=os.environ
            | {
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
                "TORCH_CPP_LOG_LEVEL": "ERROR",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    printed = []
    for rank, process in enumerate(processes):
        out, err = process.communicate(timeout=240)
        assert process.returncode == (-9 if rank == killed else 0), err
        assert "Exception ignored" not in err
        printed.append([json.loads(line) for line in out.splitlines()])
    return printed
