"""Running one cell: its programs are started, signalled, waited for and judged."""

from __future__ import annotations

import os
import queue
import random
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cells import RAISES, RESOURCES, SERVED, Cell
from judge import errors_of, problems_of
from plans import make_plan
from programs_of_cells import Program, left_of, workers_of

LIMIT_S = 60.0
"""A cell that takes longer hangs; most take 1 to 3 s, on a machine that is busy 10."""
SIGNALS = {
    "ctrl_c": signal.SIGINT,
    "sigterm": signal.SIGTERM,
    "sigkill": signal.SIGKILL,
    "closes": signal.SIGUSR1,
}


@dataclass
class Outcome:
    """How a cell has ended.

    Attributes:
        problems: what is wrong; none if it passed.
        seconds: that it took.
        errors: that the programs' users got, as they should.
    """

    cell: Cell
    seed: int
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)

    def command(self) -> str:
        """Return what repeats it."""
        return f"python tests/ends/run.py --cell '{self.cell}' --seed {self.seed}"


class Drive:
    """One run of one cell."""

    def __init__(self, cell: Cell, seed: int, folder: str) -> None:
        self.cell, self.folder = cell, folder
        self.plan = make_plan(cell, seed)
        self.chance = random.Random(f"driver {cell} {seed}")
        self.heard: queue.Queue[Any] = queue.Queue()
        self.deadline = time.monotonic() + LIMIT_S
        self.programs: list[Program] = []
        self.killed: dict[int, int] = {}  # program's pid -> code that is due
        self.server: Program | None = None
        self.problems: list[str] = []
        is_over = cell.is_server and cell.end in (*SIGNALS, "hangs")
        is_over = is_over and not (self.plan["restarting"] and cell.end != "closes")
        if self.plan["victim"] == "worker" and cell.end in ("sigterm", "sigkill"):
            is_over = False
        self.plan["reconnect"] = 1.0 if is_over else 20.0
        self.plan["is_over"] = is_over
        self.is_over = is_over

    def start(self, script: str, role: str, **more: Any) -> Program:
        program = Program(
            script, {**self.plan, "role": role, **more}, self.folder, self.heard
        )
        self.programs.append(program)
        return program

    def serve(self, role: str) -> None:
        self.server = self.start("serving", role)

    def run(self) -> None:
        """Run its programs; what is wrong is in `problems`."""
        try:
            if self.cell.setting in SERVED:
                self.serve("end" if self.cell.is_server else "plain")
                if not self.is_ready():
                    return
            script = "ranked" if self.cell.setting == "ranks" else "train"
            main = self.start(script, "end")
            self.hear(main)
            if self.plan["witness"] and self.serves_still():
                plain = {"end": "ends", "trouble": None, "epochs": 1, "overlap": False}
                plain |= {"moment": "first", "is_at_start": False, "after": "leave"}
                self.hear(self.start("train", "plain", **plain))
            self.end_server()
        finally:
            for program in self.programs:
                if program.wait(0) is None:
                    program.abort()
                program.read_out()
        self.look_for_what_is_left()
        self.problems += problems_of(self.cell, self.plan, self.programs, self.killed)

    def is_ready(self) -> bool:
        """Wait until the server is there; it may end in place of that."""
        assert self.server is not None
        while True:
            if any("ready" in told for told in self.server.said):
                return True
            if self.server.wait(0.01) is not None:
                return False
            if time.monotonic() > self.deadline:
                self.problems.append("the server never begins")
                return False
            stuck = any(told.get("at") == "hangs" for told in self.server.said)
            if stuck and self.hangs_for_good():
                return False

    def serves_still(self) -> bool:
        if self.server is None or self.is_over or self.problems:
            return False
        if self.cell.end in RAISES or self.server_has_failed():
            return False
        return self.server.wait(0) is None and not self.hangs_for_good()

    def server_has_failed(self) -> bool:
        """Return whether the server has said an error since it was ready."""
        assert self.server is not None
        said = self.server.said
        begun = next((i for i, told in enumerate(said) if "ready" in told), len(said))
        return any("error" in told for told in said[begun:])

    def hangs_for_good(self) -> bool:
        return self.cell.end == "hangs" and self.plan["leave"] == "ctrl_c"

    def hear(self, program: Program) -> None:
        """Do what the programs ask for until one of them has ended."""
        while True:
            try:
                patience_s = max(0.01, self.deadline - time.monotonic())
                who, told = self.heard.get(timeout=patience_s)
            except queue.Empty:
                self.problems.append(f"{program.script} hangs")
                program.abort()
                return
            if told is None:
                if who is program:
                    break
            elif "at" in told:
                self.act(who, told)
        if program.wait(max(1.0, self.deadline - time.monotonic())) is None:
            self.problems.append(f"{program.script} hangs at its exit")

    def act(self, who: Program, told: dict[str, Any]) -> None:
        """Do what the end says to whom it says."""
        end = told["at"]
        if end == "restart":
            self.restart(signal.SIGKILL)
            return
        time.sleep(self.plan["delay_s"])
        if end == "hangs":
            if self.plan["leave"] == "ctrl_c":
                job = next(p for p in self.programs if p.script != "serving")
                if job.script == "ranked":
                    for pid in {s["pid"] for s in job.said if "pid" in s}:
                        job.send(signal.SIGINT, pid)
                else:
                    job.send(signal.SIGINT)
            return
        program, pid = who, told["pid"]
        if self.cell.is_server:
            assert self.server is not None
            program, pid = self.server, self.server.pid
        if self.plan["victim"] == "worker" and end in ("sigterm", "sigkill", "stopped"):
            workers = workers_of(pid)
            if not workers:
                return
            pid = self.chance.choice(workers)
        self.signal(end, program, pid)

    def signal(self, end: str, program: Program, pid: int) -> None:
        if program is self.server and not self.is_ready():
            return
        if end == "stopped":
            program.send(signal.SIGSTOP, pid)
            time.sleep(self.plan["stopped_s"])
            program.send(signal.SIGCONT, pid)
            return
        if end in RESOURCES:
            program.send(signal.SIGUSR1)
            time.sleep(0.5)
            program.send(signal.SIGUSR2)
            return
        if end not in SIGNALS:
            return
        if end in ("sigterm", "sigkill") and pid == program.pid:
            self.killed[program.pid] = -SIGNALS[end]
        program.send(SIGNALS[end], pid)
        if program is self.server and pid == program.pid and not self.is_over:
            self.wait_for(program)
            self.serve("plain")

    def restart(self, number: int) -> None:
        """Kill the server, and start another one in its place."""
        assert self.server is not None
        self.killed[self.server.pid] = -number
        self.server.send(number)
        self.wait_for(self.server)
        self.serve("end")

    def wait_for(self, program: Program) -> None:
        if program.wait(max(1.0, self.deadline - time.monotonic())) is None:
            self.problems.append(f"{program.script} hangs at its end")
            program.abort()

    def end_server(self) -> None:
        if self.server is None:
            return
        if self.hangs_for_good() and self.server.wait(0) is None:
            self.killed[self.server.pid] = -signal.SIGKILL
            self.server.send(signal.SIGKILL)
        elif self.is_ready() and self.server.wait(0) is None:
            self.server.send(signal.SIGINT)
        self.wait_for(self.server)

    def look_for_what_is_left(self) -> None:
        for program in self.programs:
            if left := left_of(program.pid, 15.0):
                self.problems.append(f"{program.script} left processes: {left}")
                program.abort()
        left = {each.suffix for each in Path(self.folder).rglob("*") if each.is_file()}
        if left - {".lock", ".sock", ".jobs"}:
            self.problems.append(f"files are left: {left}")


def run_cell(cell: Cell, seed: int) -> Outcome:
    """Run a cell with the timing of a seed."""
    outcome = Outcome(cell, seed)
    shared = _shared()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ends-") as folder:
        drive = Drive(cell, seed, folder)
        drive.run()
    outcome.problems = drive.problems
    outcome.errors = [error[0] for p in drive.programs for error in errors_of(p)]
    if left := _shared() - shared:
        outcome.problems.append(f"left in /dev/shm: {left}")
    outcome.seconds = time.monotonic() - begun
    return outcome


def _shared() -> set[str]:
    return {each for each in os.listdir("/dev/shm") if "echobuf" in each}
