"""Running the tests of a module, in a process of their own that may be ended."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_PASSED = 0
_FAILED = (1, 2)  # of tests, and while they are collected
_EACH = 10.0  # times as long as the slowest test took may a test take


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run of the tests.

    Attributes:
        name: "passed", "failed", "timeout", or "broken" for anything else.
        output: what they printed.
    """

    name: str
    output: str


@dataclass(frozen=True)
class Baseline:
    """A run of the tests without a mutant.

    Attributes:
        seconds: that it took.
        tests: of each test, by its name, how long it took and which lines it ran.
        left_out: the names of tests that mutants are not tried with.
    """

    seconds: float
    tests: Mapping[str, Any]
    left_out: Sequence[str] = ()

    def covering(self, path: str, line: int) -> list[str]:
        """Return the tests that run a line in the process of pytest, fastest first."""
        found = [
            name for name, test in self.tests.items() if [path, line] in test["lines"]
        ]
        return sorted(found, key=lambda name: self.tests[name]["seconds"])

    def without(self, seconds: float) -> Baseline:
        """Return what it would be without the tests that took longer than that."""
        kept = {n: t for n, t in self.tests.items() if t["seconds"] <= seconds}
        out = [test for name, test in self.tests.items() if name not in kept]
        spared = sum(test["seconds"] for test in out)
        return Baseline(self.seconds - spared, kept, [*(self.tests.keys() - kept)])

    @property
    def slowest(self) -> float:
        """Seconds of the slowest test."""
        return max((test["seconds"] for test in self.tests.values()), default=0.0)


class Trials:
    """Runs of the same tests.

    Args:
        root: of the project, where they run.
        overlay: the folder that comes first in `PYTHONPATH`.
        tests: files and folders.
        scratch: a folder for notes.
        memory_bytes: that a process of them may take.
    """

    def __init__(
        self,
        root: Path,
        overlay: Path,
        tests: Sequence[str],
        *,
        scratch: Path,
        memory_bytes: int,
    ) -> None:
        self._root = root
        self._overlay = overlay
        self._tests = list(tests)
        self._scratch = scratch
        self._memory_bytes = memory_bytes

    def baseline(self, files: Sequence[Path], limit_s: float) -> Baseline:
        """Run the tests as they are, and note which lines of the files they run.

        Raises:
            RuntimeError: they fail, so that they can say nothing about mutants.
        """
        notes = self._scratch / "notes.json"
        begin = time.monotonic()
        outcome = self._run(
            limit_s,
            MUTATION_FILES=os.pathsep.join(map(str, files)),
            MUTATION_NOTES=str(notes),
        )
        if outcome.name != "passed":
            raise RuntimeError(
                f"without a mutant the tests have {outcome.name}:\n{outcome.output}"
            )
        return Baseline(time.monotonic() - begin, json.loads(notes.read_text()))

    def mutant(
        self, baseline: Baseline, path: Path, line: int, *, only_covering: bool = False
    ) -> Outcome:
        """Run the tests until one fails, those first that run the line.

        Args:
            baseline: of these tests.
            path: of the module that holds the mutant.
            line: that is changed.
            only_covering: leave out those that do not run the line in the process of
                pytest; none is left out if no test does.
        """
        order = self._scratch / "order.json"
        first = baseline.covering(str(path), line)
        out, tests = baseline.left_out, self._tests
        if only_covering and first:
            out = [*{*baseline.tests, *out} - {*first}]
            tests = sorted({name.partition("::")[0] for name in first})
        order.write_text(json.dumps({"first": first, "out": out}))
        each = max(20.0, _EACH * baseline.slowest)
        return self._run(
            60 + 3 * baseline.seconds,
            f"--timeout={each:.0f}",
            tests=tests,
            MUTATION_ORDER=order,
        )

    def _run(
        self,
        limit_s: float,
        *options: str,
        tests: Sequence[str] = (),
        **variables: Any,
    ) -> Outcome:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header"]
        command += ["-p", "no:cacheprovider", "-p", "covering", *options]
        command += tests or self._tests
        old = os.environ.get("PYTHONPATH", "")
        paths = [str(self._overlay), str(_HERE), *([old] if old else [])]
        process = subprocess.Popen(
            command,
            cwd=self._root,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                # A mutant's code must not be found when the next one is tried.
                "PYTHONDONTWRITEBYTECODE": "1",
                **{name: str(value) for name, value in variables.items()},
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        most = (self._memory_bytes, self._memory_bytes)
        try:
            resource.prlimit(process.pid, resource.RLIMIT_DATA, most)
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            _end_group(process)
            return Outcome("timeout", "")
        finally:
            _end_group(process)
        if process.returncode == _PASSED:
            return Outcome("passed", output)
        failed = process.returncode in _FAILED or process.returncode < 0
        return Outcome("failed" if failed else "broken", output)


def _end_group(process: subprocess.Popen[str]) -> None:
    """End the tests, and the processes that they have left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
