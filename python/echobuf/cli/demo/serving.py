"""Starts the server of `server.py` as a process, and ends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from echobuf.closing import Closing

__all__ = ["ServerProcess"]

_SCRIPT = Path(__file__).with_name("server.py")
_END_S = 5.0


class ServerProcess(Closing):
    """The server, as long as the `with` block lasts.

    Args:
        folder: The folder whose files it serves.

    Attributes:
        port: Its port on the loopback interface.
    """

    def __init__(self, folder: Path) -> None:
        # Its own session: Ctrl-C reaches only the demo, which then ends the server.
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_SCRIPT), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            self.port = int(self._answer())
        except BaseException:
            self.close()
            raise

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the demo's server ended unexpectedly")
        return line

    def set_bandwidth(self, bytes_per_s: float) -> None:
        """Sets the limit that all connections share, in bytes a second."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{bytes_per_s!r}\n")
        self._process.stdin.flush()
        self._answer()

    def close(self) -> None:
        """Ends the server; a second call does nothing."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
