"""What a benchmark asks, and of whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Candidate", "Question"]


@dataclass(frozen=True)
class Candidate:
    """One way to do the work; it runs in a process of its own.

    Args:
        name: as the table shows it.
        target: `"module:Class"`, imported in the candidate's process. An instance is
            made from the settings; see `worker.py` for what it must have.
        settings: JSON, laid over the question's settings.
        python: the interpreter; this one unless told. It needs the packages that the
            target imports, and echobuf only if the target does.
        reference: the candidate that this one is compared with, if it is not the
            question's. Both are measured in the same group.
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
        settings: JSON, given to every candidate. `limit_s` (2) is when a round ends
            at the next chance; `chunks` (1) how often it does its work at most.
        path: folders in which targets are looked for, besides installed packages.
        resident: how many candidates may be in memory at once; the reference is
            always one of them, and each group is compared with it anew.
        timeout_s: an answer that takes longer is a hang.
        settle_s: how long to wait at most, after a candidate's turn, until the threads
            and processes that it keeps have come to rest.
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

    def __post_init__(self) -> None:
        names = [candidate.name for candidate in self.candidates]
        if len(set(names)) < len(names):
            raise ValueError(f"two candidates have the same name: {names}")
        for name in [self.reference, *self._own_references()]:
            if name not in names:
                raise ValueError(f"the reference {name!r} is not a candidate: {names}")

    def _own_references(self) -> list[str]:
        return [c.reference for c in self.candidates if c.reference is not None]

    def reference_of(self, candidate: Candidate) -> str:
        """Name of the candidate that this one is compared with."""
        return candidate.reference or self.reference

    def groups(self) -> list[list[Candidate]]:
        """The candidates that are in memory together; the reference is in each."""
        chosen = next(c for c in self.candidates if c.name == self.reference)
        others = [c for c in self.candidates if c is not chosen]
        size = len(others) if self.resident is None else max(1, self.resident - 1)
        size = max(1, size)
        starts = range(0, max(1, len(others)), size)
        return [[chosen, *others[start : start + size]] for start in starts]
