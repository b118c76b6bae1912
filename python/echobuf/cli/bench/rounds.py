"""Measures candidates in interleaved rounds; one process runs at a time."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from echobuf.cli.bench.processes import CandidateError, CandidateProcess
from echobuf.cli.bench.question import Candidate, Question
from echobuf.cli.bench.ratios import Ratio, paired_ratio

__all__ = ["Failed", "Measured", "measure"]


@dataclass
class Measured:
    """What a candidate did in each round."""

    candidate: Candidate
    about: dict[str, Any]
    rounds: list[dict[str, Any]] = field(default_factory=list)
    ratio: Ratio | None = None  # the speed over the reference's

    @property
    def seconds(self) -> list[float]:
        """Seconds for one unit, round by round."""
        return [row["seconds"] / row["units"] for row in self.rounds]

    @property
    def median_s(self) -> float:
        """The median of `seconds`."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Failed:
    """A candidate without figures: at which stage it failed, and why."""

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
    """Measures all candidates; one that fails is named, and the rest goes on.

    Args:
        question: what to measure.
        rounds: how many rounds count.
        warm_up: rounds before them that do not.
        progress: is told in a few words what is being done.

    Returns:
        Name of each candidate to its outcome, in the question's order.
    """
    tell = progress or _tell
    outcomes: dict[str, Outcome] = {}
    for group in question.groups():
        _Group(question, group, tell).measure(rounds, warm_up, outcomes)
    tell("")
    return {c.name: outcomes[c.name] for c in question.candidates}


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:79]}", end="", file=sys.stderr, flush=True)


class _Group:
    """Candidates that are in memory at the same time."""

    def __init__(
        self, question: Question, group: list[Candidate], tell: Callable[[str], None]
    ) -> None:
        self._question = question
        self._group = group
        self._tell = tell
        self._processes: dict[str, CandidateProcess] = {}
        self._outcomes: dict[str, Outcome] = {}

    def measure(self, rounds: int, warm_up: int, all_of: dict[str, Outcome]) -> None:
        try:
            for candidate in self._group:
                self._tell(f"{self._question.name}: preparing {candidate.name}")
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
            self._tell(f"{self._question.name}: round {index}, {candidate.name}")
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
        """Adds the group's outcomes; rounds of the reference come together."""
        for name, outcome in self._outcomes.items():
            known = all_of.get(name)
            if isinstance(known, Measured) and isinstance(outcome, Measured):
                known.rounds += outcome.rounds
            elif not isinstance(known, Failed):
                all_of[name] = outcome
