"""The runs that are done, a line each, so that the experiment can go on."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

from fresh.run import Run, Trial

__all__ = ["CountLedger", "Ledger"]

R = TypeVar("R", bound=Trial)


class Ledger(Generic[R]):
    """A file of lines of JSON.

    Args:
        path: of the file, which need not be there.
        settings: of each workload, in short; runs with other ones are passed over.
    """

    outcome: tuple[str, ...] = ()  # fields of a line that do not tell runs apart

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
        """Return the line of that run; None: it is to be made."""
        return self._rows.get(self._key(self._row(run)))

    def add(self, run: R, outcome: dict[str, Any]) -> None:
        """Write the line of a run that is done."""
        row = {**self._row(run), **outcome}
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
            self._rows[self._key(row)] = row

    def _row(self, run: R) -> dict[str, Any]:
        row = asdict(run)
        return {"settings": self._settings[run.workload], **row.pop("condition"), **row}

    def _key(self, row: dict[str, Any]) -> str:
        told = {k: v for k, v in row.items() if k not in self.outcome}
        return json.dumps(told, sort_keys=True)


class CountLedger(Ledger[Run]):
    """A ledger of fresh examples to the target."""

    outcome = ("fresh", "most_fresh")

    def find(self, run: Run) -> dict[str, Any] | None:
        """Return the line of that run, unless it was cut off sooner than it is now."""
        row = super().find(run)
        if row is None or (row["fresh"] is None and row["most_fresh"] < run.most_fresh):
            return None
        return row
