"""Serve, and end as a cell says: `python serving.py PLAN`, with a plan as JSON.

SIGUSR1 does what the end says, if that is the process's own; SIGUSR2 takes it back.
SIGINT ends it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import sys
import tempfile
from typing import Any

import leaks
import limits
from books import Data, ServedExamples, ServedSampler, say
from cells import RESOURCES
from train import NAME, Trial, plan_of

import echobuf
from echobuf import serve


class Serving:
    """A server, and what is taken from it."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.limit: Any = None
        self.asked: list[int] = []
        for each in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(each, lambda number, _: self.asked.append(number))

    def make(self) -> serve.Server:
        plan = self.plan
        data = Data(plan)
        upstream, kwargs = data, {"sampler": ServedSampler(data)}
        if plan["shape"] == "iterable":
            upstream, kwargs = ServedExamples(data), {}
        if plan["end"] == "disk":
            kwargs["spill"] = plan["folder"]
        kwargs["num_workers"] = plan["workers"]
        window = 2 * plan["kwargs"]["window"]
        return serve.Server(
            upstream, NAME, window=window, lease=plan["lease"], **kwargs
        )

    def begin(self) -> serve.Server:
        """Make the server, without a resource at first if the cell says so."""
        plan = self.plan
        if plan["role"] == "end" and plan["end"] in RESOURCES and plan["is_at_start"]:
            try:
                with limits.taken(plan["end"], plan["slack"]):
                    return self.make()
            except (echobuf.EchobufError, OSError, MemoryError, RuntimeError) as error:
                Trial.tell(self, error)  # type: ignore[arg-type]
        return self.make()

    rank = None

    def wait(self, server: serve.Server) -> None:
        while not server.wait(0.05):
            for each in self.asked:
                if each == signal.SIGUSR1 and self.plan["end"] == "closes":
                    deaf()
                    return
                if each == signal.SIGUSR1 and self.limit is None:
                    self.limit = limits.taken(self.plan["end"], self.plan["slack"])
                    self.limit.__enter__()
                    say(taken=True)
                elif self.limit is not None:
                    self.limit.__exit__(None, None, None)
                    self.limit = None
            self.asked.clear()

    def run(self) -> None:
        try:
            server = self.begin()
        except echobuf.EchobufError as error:
            deaf()
            Trial.tell(self, error)  # type: ignore[arg-type]
            return
        say(ready=True)
        try:
            self.wait(server)
        except KeyboardInterrupt:
            deaf()
            say(interrupted=True)
            server.close(restarting=self.plan["restarting"])
        except echobuf.EchobufError as error:
            deaf()
            Trial.tell(self, error)  # type: ignore[arg-type]
        if self.limit is not None:
            self.limit.__exit__(None, None, None)
        server.close()


def deaf() -> None:
    """Ignore signals, which the driver sends in any case."""
    for each in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, signal.SIG_IGN)


def main(plan: dict[str, Any]) -> None:
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = leaks.files()
    with (
        tempfile.TemporaryDirectory()
        if plan["end"] == "disk"
        else (contextlib.nullcontext()) as folder
    ):
        Serving({**plan, "folder": folder}).run()
    leaks.check(before)
    say(done=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(plan_of(sys.argv[1]))
