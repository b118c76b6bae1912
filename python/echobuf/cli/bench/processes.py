"""A candidate's process, as its parent sees it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from echobuf.cli.bench.question import Candidate, Question

__all__ = ["CandidateError", "CandidateProcess"]

_WORKER = Path(__file__).with_name("worker.py")


class CandidateError(Exception):
    """A candidate cannot go on: at which `stage`, and the `reason` in one line."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage = stage
        self.reason = reason


class CandidateProcess:
    """Runs one candidate; between two requests it sleeps, waiting for a line."""

    def __init__(self, candidate: Candidate, question: Question) -> None:
        self._timeout_s = question.timeout_s
        self._settle_s = question.settle_s
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by kill)
        folders = [str(folder) for folder in question.path]
        try:
            self._process = subprocess.Popen(
                [candidate.python or sys.executable, str(_WORKER), *folders],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,  # so that what it starts can be ended too
            )
        except OSError as error:
            self._errors.close()
            raise CandidateError("start", str(error)) from None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)

    @property
    def _out(self) -> Any:
        return self._process.stdout

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a request; a `CandidateError` if there is none."""
        line = json.dumps({"do": do, "with": arguments}).encode() + b"\n"
        try:
            self._process.stdin.write(line)  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            raise CandidateError(do, self._how_it_ended()) from None
        answer = json.loads(self._read_line(do))
        if not answer.pop("ok"):
            raise CandidateError(answer["stage"], answer["reason"])
        return dict(answer)

    def _read_line(self, do: str) -> bytes:
        due = time.monotonic() + self._timeout_s
        data = b""
        while not data.endswith(b"\n"):
            if not self._selector.select(max(0.0, due - time.monotonic())):
                reason = f"no answer within {self._timeout_s:g} s; it was ended"
                raise CandidateError(do, reason)
            part = os.read(self._out.fileno(), 1 << 16)
            if not part:
                raise CandidateError(do, self._how_it_ended())
            data += part
        return data

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its output and went on; it was ended"
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return f"the process ended ({how}) {self._last_words()}".rstrip()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][:300] if said else ""

    def stop(self) -> None:
        """Ends the process, and whatever it has started."""
        with contextlib.suppress(CandidateError):
            if self._process.poll() is None:
                self._timeout_s = min(self._timeout_s, 10.0)
                self.ask("stop")
        self.kill()

    def kill(self) -> None:
        """Ends the process at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        self._process.stdin.close()  # type: ignore[union-attr]
        self._out.close()
        self._errors.close()

    def settle(self) -> None:
        """Waits until what the candidate does in the background has come to rest."""
        due = time.monotonic() + self._settle_s
        before = None
        while time.monotonic() < due and before != (now := self._ticks()):
            before = now
            time.sleep(0.03)  # the clock of /proc ticks every 0.01 s

    def _ticks(self) -> list[str]:
        """Processor time of every process of the session."""
        ticks = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                if fields[3:4] == [str(self._process.pid)]:
                    ticks.append(f"{path}:{fields[11]}:{fields[12]}")
        return ticks
