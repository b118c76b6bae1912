"""The runs that are done, a line each, so that the experiment can go on."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fresh.run import Run

__all__ = ["Ledger"]


class Ledger:
    """A file of lines of JSON.

    Args:
        path: of the file, which need not be there.
        settings: of each workload, in short; runs with other ones are passed over.
    """

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
                self._rows[_key(row)] = row

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, run: Run) -> dict[str, Any] | None:
        """The line of that run, unless it was cut off sooner than it is to be now."""
        row = self._rows.get(_key(self._row(run)))
        if row is None or (row["fresh"] is None and row["most_fresh"] < run.most_fresh):
            return None
        return row

    def add(self, run: Run, fresh: int | None) -> None:
        """Writes the line of a run that is done."""
        row = {**self._row(run), "fresh": fresh}
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
            self._rows[_key(row)] = row

    def _row(self, run: Run) -> dict[str, Any]:
        row = asdict(run)
        return {"settings": self._settings[run.workload], **row.pop("condition"), **row}


def _key(row: dict[str, Any]) -> str:
    told = {k: v for k, v in row.items() if k not in ("fresh", "most_fresh")}
    return json.dumps(told, sort_keys=True)
