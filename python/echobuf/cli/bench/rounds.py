"""Measurement of candidates in interleaved rounds; one process runs at a time."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echobuf.cli.bench.questions import Candidate, Question

__all__ = [
    "CandidateError",
    "CandidateProcess",
    "Failed",
    "Measured",
    "Ratio",
    "measure",
    "paired_ratio",
]


@dataclass
class Measured:
    """Figures of a candidate, by round."""

    candidate: Candidate
    about: dict[str, Any]
    rounds: list[dict[str, Any]] = field(default_factory=list)
    ratio: Ratio | None = None  # the speed over the reference's

    @property
    def seconds(self) -> list[float]:
        """Return seconds for one unit, round by round."""
        return [row["seconds"] / row["units"] for row in self.rounds]

    @property
    def median_s(self) -> float:
        """Return the median of `seconds`."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Failed:
    """A candidate without figures, with the stage and the reason of its failure."""

    candidate: Candidate
    stage: str
    reason: str


Outcome = Measured | Failed


def measure(
    question: Question,
    rounds: int,
    *,
    warm_up: int = 1,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Outcome]:
    """Measure all candidates; one that fails is named, and the rest goes on.

    Args:
        question: the candidates and their settings.
        rounds: number of rounds that count.
        warm_up: number of rounds before them that do not count.
        progress: called with a few words before each action.

    Returns:
        Name of each candidate to its outcome, in the question's order.
    """
    report_progress = progress or _show_progress
    outcomes: dict[str, Outcome] = {}
    for group in question.groups():
        _Group(question, group, report_progress).measure(rounds, warm_up, outcomes)
    report_progress("")
    return {c.name: outcomes[c.name] for c in question.candidates}


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:79]}", end="", file=sys.stderr, flush=True)


class _Group:
    """Candidates that are in memory at the same time."""

    def __init__(
        self,
        question: Question,
        group: list[Candidate],
        progress: Callable[[str], None],
    ) -> None:
        self._question = question
        self._group = group
        self._progress = progress
        self._processes: dict[str, CandidateProcess] = {}
        self._outcomes: dict[str, Outcome] = {}

    def measure(self, rounds: int, warm_up: int, all_of: dict[str, Outcome]) -> None:
        try:
            for candidate in self._group:
                self._progress(f"{self._question.name}: preparing {candidate.name}")
                self._start(candidate)
            for index in range(warm_up + rounds):
                self._round(index, index >= warm_up)
        finally:
            for process in self._processes.values():
                process.stop()
        self._compare()
        self._merge(all_of)

    def _start(self, candidate: Candidate) -> None:
        try:
            process = CandidateProcess(candidate, self._question)
        except CandidateError as error:
            self._outcomes[candidate.name] = Failed(
                candidate, error.stage, error.reason
            )
            return
        self._processes[candidate.name] = process
        settings = {**self._question.settings, **candidate.settings}
        about = self._ask(
            candidate, "prepare", target=candidate.target, settings=settings
        )
        if about is not None:
            self._outcomes[candidate.name] = Measured(candidate, about)
            self._ask(candidate, "warm_up")

    def _ask(
        self, candidate: Candidate, do: str, **arguments: Any
    ) -> dict[str, Any] | None:
        process = self._processes[candidate.name]
        try:
            answer = process.ask(do, **arguments)
            process.settle()
            return answer
        except CandidateError as error:
            process.kill()
            del self._processes[candidate.name]
            self._outcomes[candidate.name] = Failed(
                candidate, error.stage, error.reason
            )
            return None

    def _round(self, index: int, counts: bool) -> None:
        shift = index % len(self._group)
        for candidate in self._group[shift:] + self._group[:shift]:
            if candidate.name not in self._processes:
                continue
            self._progress(f"{self._question.name}: round {index}, {candidate.name}")
            row = self._ask(candidate, "round")
            outcome = self._outcomes[candidate.name]
            if counts and row is not None and isinstance(outcome, Measured):
                outcome.rounds.append(row)

    def _compare(self) -> None:
        """Compare with the reference while only rounds of this group are there."""
        for outcome in self._outcomes.values():
            if isinstance(outcome, Measured):
                name = self._question.reference_of(outcome.candidate)
                reference = self._outcomes.get(name)
                if isinstance(reference, Measured):
                    outcome.ratio = paired_ratio(reference.seconds, outcome.seconds)

    def _merge(self, all_of: dict[str, Outcome]) -> None:
        """Add the group's outcomes, joining the reference's rounds of all groups."""
        for name, outcome in self._outcomes.items():
            known = all_of.get(name)
            if isinstance(known, Measured) and isinstance(outcome, Measured):
                known.rounds += outcome.rounds
            elif not isinstance(known, Failed):
                all_of[name] = outcome


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

    Args:
        reference: Seconds by round; `None`, or missing, where it has no figure.
        other: The same of the candidate measured in the same rounds.

    Raises:
        ValueError: There is no round that both have.
    """
    both = zip(reference, other, strict=False)
    ratios = [a / b for a, b in both if a is not None and b is not None]
    if not ratios:
        raise ValueError("there is no round that both candidates have")
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


_WORKER = Path(__file__).with_name("worker.py")


class CandidateError(Exception):
    """Failure of a candidate, with its `stage`, and the `reason` in one line."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage = stage
        self.reason = reason


class CandidateProcess:
    """Process of one candidate, which sleeps between two requests."""

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
                start_new_session=True,  # so that its child processes can be ended, too
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
        """Send a request and return the answer; `CandidateError` if there is none."""
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
        """End the process, and all processes that it has started."""
        with contextlib.suppress(CandidateError):
            if self._process.poll() is None:
                self._timeout_s = min(self._timeout_s, 10.0)
                self.ask("stop")
        self.kill()

    def kill(self) -> None:
        """End the process at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        self._process.stdin.close()  # type: ignore[union-attr]
        self._out.close()
        self._errors.close()

    def settle(self) -> None:
        """Wait until the candidate's background threads and processes are idle."""
        due = time.monotonic() + self._settle_s
        before = None
        while time.monotonic() < due and before != (now := self._ticks()):
            before = now
            time.sleep(0.03)  # the clock of /proc ticks every 0.01 s

    def _ticks(self) -> list[str]:
        """Return the processor time of every process of the session."""
        ticks = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                if fields[3:4] == [str(self._process.pid)]:
                    ticks.append(f"{path}:{fields[11]}:{fields[12]}")
        return ticks
