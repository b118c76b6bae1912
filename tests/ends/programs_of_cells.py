"""Programs of a cell as processes: what they say and leave, and their signals."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Program:
    """A program of this folder, in a session of its own.

    Args:
        script: its name.
        plan: its argument.
        folder: where sockets of servers are.
        heard: where what it says goes, with the program.
    """

    def __init__(
        self, script: str, plan: dict[str, Any], folder: str, heard: queue.Queue[Any]
    ) -> None:
        self.script = script
        self.said: list[dict[str, Any]] = []
        self.errors = ""
        path = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / f"{script}.py"), json.dumps(plan)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path),
                "XDG_RUNTIME_DIR": folder,
                "TORCH_CPP_LOG_LEVEL": "ERROR",
                "OMP_NUM_THREADS": "1",
            },
        )
        self.pid = self.process.pid
        self._heard = heard
        self._readers = [
            threading.Thread(target=read, daemon=True)
            for read in (self._read_out, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                told = json.loads(line)
            except ValueError:
                told = {"said": line.decode(errors="replace")}
            self.said.append(told)
            self._heard.put((self, told))
        self._heard.put((self, None))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line.decode(errors="replace")

    def send(self, number: int, pid: int | None = None) -> None:
        """Send a signal to it, or to another process of its session."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid if pid is None else pid, number)

    def wait(self, timeout_s: float) -> int | None:
        """Return its exit code, or None if it has not ended."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return code

    def read_out(self) -> None:
        """Wait until all that it said is here."""
        for reader in self._readers:
            reader.join(5)

    def abort(self) -> None:
        """End all of its session, with the stacks of its threads on stderr."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGABRT)
        self.wait(2)
        for pid in processes_of(self.pid):
            self.send(signal.SIGKILL, pid)
        self.wait(10)


def _stat(pid: str) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def processes_of(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        fields = _stat(pid)
        if fields is not None and fields[0] not in "ZX" and fields[3] == str(session):
            found.append(int(pid))
    return found


def workers_of(parent: int) -> list[int]:
    """Return the worker processes of a process."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        fields = _stat(pid)
        if fields is None or fields[1] != str(parent):
            continue
        with contextlib.suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found


def left_of(session: int, wait_s: float) -> list[int]:
    """Return processes of a session that are still there after a while."""
    end = time.monotonic() + wait_s
    while (left := processes_of(session)) and time.monotonic() < end:
        time.sleep(0.02)
    return left
