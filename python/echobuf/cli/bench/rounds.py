"""Measurement of candidates in interleaved rounds; one process runs at a time."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echobuf.cli.bench.questions import Candidate, Question


@dataclass(frozen=True)
class Ratio:
    """Ratios over all rounds: their median, minimum and maximum."""

    median: float
    least: float
    most: float

    @property
    def range(self) -> list[float]:
        """Return the minimum and the maximum, for JSON."""
        return [self.least, self.most]


def paired_ratio(
    reference: Sequence[float | None], other: Sequence[float | None]
) -> Ratio:
    """Return the ratios `reference` over `other`, round by round: the other's speed.

    Both are seconds by round; None, or missing, where there is no figure.
    """
    both = zip(reference, other, strict=False)
    ratios = [a / b for a, b in both if a is not None and b is not None]
    if not ratios:
        raise ValueError("there is no round that both candidates have")
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


@dataclass
class Outcome:
    """Figures of a candidate, by round, or the reason for having none."""

    candidate: Candidate
    about: dict[str, Any] = field(default_factory=dict)  # Python, versions, promises
    rounds: list[dict[str, Any]] = field(default_factory=list)  # of its process
    ratio: Ratio | None = None  # speed over the reference's; None where one has none
    failed_at: str = ""  # the stage
    reason: str = ""  # for the failure

    @property
    def seconds(self) -> list[float]:
        """Return seconds for one unit, round by round."""
        return [row["seconds"] / row["units"] for row in self.rounds]

    @property
    def median_s(self) -> float:
        """Return the median of `seconds`."""
        return statistics.median(self.seconds)


def measure(question: Question, rounds: int, *, warm_up: int = 1) -> dict[str, Outcome]:
    """Return the outcome of each candidate; one that fails stops no other.

    `warm_up` rounds before the others do not count.
    """
    outcomes: dict[str, Outcome] = {}
    for group in question.groups():
        measured = _measure_group(question, group, rounds, warm_up)
        for name, outcome in measured.items():
            known = outcomes.get(name)  # the reference, of the groups before
            if known is None or (outcome.failed_at and not known.failed_at):
                outcomes[name] = outcome
            elif not known.failed_at:
                known.rounds += outcome.rounds
    _show_progress("")
    return {c.name: outcomes[c.name] for c in question.candidates}


def _measure_group(
    question: Question, group: list[Candidate], rounds: int, warm_up: int
) -> dict[str, Outcome]:
    """Measure candidates that are in memory at the same time."""
    processes = []
    try:
        for candidate in group:
            _show_progress(f"{question.name}: preparing {candidate.name}")
            process = CandidateProcess(candidate, question)
            processes.append(process)
            process.prepare(question.settings_of(candidate))
        for index in range(-warm_up, rounds):
            shift = index % len(processes)
            for process in processes[shift:] + processes[:shift]:
                name = process.candidate.name
                _show_progress(f"{question.name}: round {index}, {name}")
                row = process.ask("round")
                if row is not None and index >= 0:
                    process.outcome.rounds.append(row)
    finally:
        for process in processes:
            process.stop()
    outcomes = {each.candidate.name: each.outcome for each in processes}
    for outcome in outcomes.values():
        reference = outcomes.get(question.reference_of(outcome.candidate))
        if reference is not None and not reference.failed_at and not outcome.failed_at:
            outcome.ratio = paired_ratio(reference.seconds, outcome.seconds)
    return outcomes


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:79]}", end="", file=sys.stderr, flush=True)


class CandidateProcess:
    """Process of one candidate, which sleeps between two requests."""

    def __init__(self, candidate: Candidate, question: Question) -> None:
        self.candidate = candidate
        self.timeout_s = question.timeout_s
        self.outcome = Outcome(candidate)
        self._settle_s = question.settle_s
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `kill`)
        self._pipe, theirs = multiprocessing.Pipe()
        program = str(Path(__file__).with_name("worker.py"))
        arguments = [program, str(theirs.fileno()), *map(str, question.path)]
        try:
            self._process = subprocess.Popen(
                [candidate.python or sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # so that its child processes can be ended, too
            )
        except OSError as error:
            self._fail("start", str(error))
        finally:
            theirs.close()

    def prepare(self, settings: dict[str, Any]) -> None:
        """Make the candidate, and let it check its claims."""
        about = self.ask("prepare", target=self.candidate.target, settings=settings)
        if about is not None:
            self.outcome.about = about
            self.ask("warm_up")

    def ask(self, do: str, **arguments: Any) -> dict[str, Any] | None:
        """Return the answer to a request; None where the candidate has failed."""
        if self.outcome.failed_at:
            return None
        failed_at: str = do
        answer: Any = f"no answer within {self.timeout_s:g} s; it was ended"
        try:
            self._pipe.send((do, arguments))
            if self._pipe.poll(self.timeout_s):
                failed_at, answer = self._pipe.recv()
        except (EOFError, OSError):
            answer = self._how_it_ended()
        if failed_at:
            self._fail(failed_at, answer)
            return None
        self._settle()
        return dict(answer)

    def _fail(self, stage: str, reason: str) -> None:
        self.outcome.failed_at, self.outcome.reason = stage, reason
        self._kill()

    def _how_it_ended(self) -> str:
        """Return the exit code and the last line that the process has printed."""
        assert self._process is not None
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its pipe and went on; it was ended"
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").rstrip()
        last = said.rpartition("\n")[2].strip()[:300]
        return f"the process ended ({how}) {last}".rstrip()

    def stop(self) -> None:
        """End the process, and all processes that it has started."""
        if not self.outcome.failed_at:
            with contextlib.suppress(OSError):
                self._pipe.send(("close", {}))
                self._pipe.poll(min(self.timeout_s, 10.0))
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._pipe.close()
        self._said.close()

    def _settle(self) -> None:
        """Wait until the candidate's background threads and processes are idle."""
        due = time.monotonic() + self._settle_s
        before = None
        while time.monotonic() < due and before != (now := self._ticks()):
            before = now
            time.sleep(0.03)  # the clock of /proc ticks every 0.01 s

    def _ticks(self) -> list[str]:
        """Return the processor time of every process of the session."""
        assert self._process is not None
        ticks = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                if fields[3:4] == [str(self._process.pid)]:
                    ticks.append(f"{path}:{fields[11]}:{fields[12]}")
        return ticks
