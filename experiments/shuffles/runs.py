"""Finished runs, one a line in a file, so that an experiment can go on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shuffles.accuracy import Run, accuracy

__all__ = ["Runs"]


class Runs:
    """Accuracies of runs: those in the file, and those made now, which it gets.

    Args:
        path: the file; it need not be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, float] = {}
        if path.exists():
            whole, end, _ = path.read_text().rpartition("\n")
            path.write_text(whole + end)  # without a line that was cut short
            for line in whole.splitlines():
                row = json.loads(line)
                self._found[_key(row["run"])] = row["accuracy"]

    def accuracy(self, run: Run) -> float:
        """Return a run's accuracy, from the file if it is there."""
        about = asdict(run)
        if _key(about) not in self._found:
            self._add(about, accuracy(run))
        return self._found[_key(about)]

    def _add(self, about: dict[str, Any], value: float) -> None:
        self._found[_key(about)] = value
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps({"run": about, "accuracy": value}) + "\n")


def _key(about: dict[str, Any]) -> str:
    return json.dumps(about, sort_keys=True)
