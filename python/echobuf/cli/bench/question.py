"""Questions that a benchmark asks, and the candidates that answer them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Candidate:
    """One way to do the work of a question: a row of its table.

    Args:
        name: in the table.
        target: `"module:Class"`, imported in the candidate's process. The class takes
            the settings; `worker.py` lists its methods.
        settings: JSON values that override the question's settings.
        python: the interpreter; the current one by default. It needs the packages that
            the target imports, and echobuf only if the target does.
        reference: name of the candidate to compare with, if not the question's. Both
            are measured in the same group.
    """

    name: str
    target: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    python: str | None = None
    reference: str | None = None


@dataclass(frozen=True)
class Question:
    """Candidates that do the same work.

    Args:
        name: of the result file.
        unit: what is counted, such as `"batch"`.
        candidates: in the order of the table.
        reference: name of the candidate that the others are compared with.
        settings: JSON values for all candidates. A round ends after the first chunk of
            work that reaches `limit_s` (2) seconds, or after `chunks` (1) of them.
        path: folders to search for targets, besides installed packages.
        resident: largest number of candidates in memory at once. The reference is
            always one of them, and is measured again with each group.
        timeout_s: seconds after which a missing answer counts as a hang.
        settle_s: longest wait, after a candidate's turn, for its threads and processes
            to become idle.
        about: one line for people.
    """

    name: str
    unit: str
    candidates: tuple[Candidate, ...]
    reference: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[Path, ...] = ()
    resident: int | None = None
    timeout_s: float = 120.0
    settle_s: float = 1.0
    about: str = ""

    def __post_init__(self) -> None:
        names = [candidate.name for candidate in self.candidates]
        if len(set(names)) < len(names):
            raise ValueError(f"two candidates have the same name: {names}")
        for name in {self.reference, *map(self.reference_of, self.candidates)}:
            if name not in names:
                raise ValueError(f"the reference {name!r} is not a candidate: {names}")

    def reference_of(self, candidate: Candidate) -> str:
        """Return the name of the candidate that this one is compared with."""
        return candidate.reference or self.reference

    def settings_of(self, candidate: Candidate) -> dict[str, Any]:
        """Return the settings of a candidate."""
        return {**self.settings, **candidate.settings}

    def groups(self) -> list[list[Candidate]]:
        """Return the groups to hold in memory together, each with the reference."""
        chosen = next(c for c in self.candidates if c.name == self.reference)
        others = [c for c in self.candidates if c is not chosen]
        size = max(1, len(others) if self.resident is None else self.resident - 1)
        starts = range(0, max(1, len(others)), size)
        return [[chosen, *others[start : start + size]] for start in starts]
