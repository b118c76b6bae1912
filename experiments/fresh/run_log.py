"""Logs of finished runs, from which an experiment resumes."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

from fresh.run import Run, Trial

__all__ = ["CountLog", "RunLog"]

R = TypeVar("R", bound=Trial)


class RunLog(Generic[R]):
    """A file with a line of JSON for each finished run.

    Args:
        path: of the file, which may be missing.
        settings: by workload, as short text; runs with other settings are ignored.
    """

    outcome: tuple[str, ...] = ()  # fields of a line that do not identify its run

    def __init__(self, path: Path, settings: dict[str, str]) -> None:
        self._path = path
        self._settings = settings
        self._lock = threading.Lock()
        self._rows: dict[str, dict[str, Any]] = {}
        if path.exists():
            whole, end, _ = path.read_text().rpartition("\n")
            path.write_text(whole + end)  # without a line that was cut short
            for line in whole.splitlines():
                row = json.loads(line)
                self._rows[self._key(row)] = row

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, run: R) -> dict[str, Any] | None:
        """Return the line of a run; None if the run is not finished."""
        return self._rows.get(self._key(self._row(run)))

    def add(self, run: R, outcome: dict[str, Any]) -> None:
        """Write the line of a finished run."""
        row = {**self._row(run), **outcome}
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
            self._rows[self._key(row)] = row

    def _row(self, run: R) -> dict[str, Any]:
        row = asdict(run)
        return {"settings": self._settings[run.workload], **row.pop("condition"), **row}

    def _key(self, row: dict[str, Any]) -> str:
        identity = {k: v for k, v in row.items() if k not in self.outcome}
        return json.dumps(identity, sort_keys=True)


class CountLog(RunLog[Run]):
    """A log of the fresh examples to the target."""

    outcome = ("fresh", "most_fresh")

    def find(self, run: Run) -> dict[str, Any] | None:
        """Return the line of a run, unless a shorter time had cut that off."""
        row = super().find(run)
        if row is None or (row["fresh"] is None and row["most_fresh"] < run.most_fresh):
            return None
        return row
