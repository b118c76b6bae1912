"""Train, and end as a cell says: `python train.py PLAN`, with a plan as JSON.

Each line on stdout is for the driver: that the moment is there, errors that the loop
got, and "done". What is wrong with the data is an AssertionError.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import leaks
import limits
from books import Books, Data, Examples, Sampler, say
from cells import RESOURCES, SERVED
from plans import RESTART_AT

import echobuf

NAME = "ends"
_SOON_S = 20.0  # within which the driver sends its signal


class Left(Exception):
    """The loop is left for good."""


class Trial:
    """A training program that ends in one way.

    Args:
        plan: of the cell.
        rank: of a program of several ranks.
    """

    def __init__(self, plan: dict[str, Any], rank: int | None = None) -> None:
        self.plan, self.rank = plan, rank
        self.end, self.moment = plan["end"], plan["moment"]
        self.lengths = list(plan["lengths"])
        self.is_ours = plan["role"] == "end" and rank in (None, 1)
        if rank == 0 and self.end == "ends":
            self.lengths = [plan["n"]] * len(self.lengths)
        self.attached: Any = None
        self.loader: Any = None
        self.epoch: Any = None
        self.books: Books | None = None
        self.batches = 0
        self.is_due = self.is_ours
        self.is_interrupted = False
        self.limit: contextlib.AbstractContextManager[None] | None = None
        self.folder = tempfile.TemporaryDirectory() if self.end == "disk" else None

    # ---- loaders

    def make(self, *, armed: bool = True) -> None:
        """Make the loader."""
        plan = self.plan
        kwargs = dict(plan["kwargs"])
        if plan["overlap"]:
            kwargs["overlap_epochs"] = True
        if plan["setting"] in SERVED:
            from echobuf import serve

            patience_s = 2.0 if plan["is_over"] else _SOON_S
            self.attached = serve.attach(
                NAME, timeout=patience_s, reconnect=plan["reconnect"]
            )
            self.loader = echobuf.EchoLoader(self.attached, **kwargs)
            return
        quiet = plan if self.is_ours else {**plan, "trouble": None}
        data: Any = Data({**quiet, "lengths": self.lengths})
        data.armed = armed
        sampler = Sampler(data)
        upstream: Any = data
        if self.folder is not None:
            from echobuf.cache import CachedDataset

            upstream = CachedDataset(
                data,
                directory=tempfile.mkdtemp(dir=self.folder.name),
                max_bytes=64 << 20,
                identity="1",
            )
        if plan["shape"] == "iterable" and self.folder is None:
            upstream = Examples(data)
        else:
            kwargs["sampler"] = sampler
        if self.rank is not None:
            from echobuf.torch import EchoLoader

            self.loader = EchoLoader(upstream, uneven="drop", **kwargs)
            return
        self.loader = echobuf.EchoLoader(
            upstream, num_workers=plan["workers"], **kwargs
        )

    # ---- the moment

    def due(self) -> None:
        """Do what the end says, at its moment."""
        if not self.is_due:
            return
        self.is_due = False
        if self.end in ("ctrl_c", "sigterm", "sigkill", "stopped", "closes") or (
            self.plan["setting"] in ("server", "server_workers")
        ):
            if self.end == "closes" and self.attached is not None and self.is_client():
                self.attached.close()
            elif self.end == "closes" and self.is_client():
                self.loader.close()
            else:
                self.await_signal()
        elif self.end in RESOURCES and self.end != "disk":
            self.limit = limits.taken(self.end, self.plan["slack"])
            self.limit.__enter__()
        elif self.end == "disk" and not self.plan["workers"]:
            self.limit = limits.taken(self.end, 0)
            self.limit.__enter__()
        elif self.end == "drops_loader":
            self.loader = None
            if self.attached is not None:
                self.attached = None
            if self.plan["both"]:
                raise Left
        elif self.end in ("breaks", "drops_iterator"):
            raise Left

    def is_client(self) -> bool:
        return self.plan["setting"] not in ("server", "server_workers")

    def await_signal(self) -> None:
        """Tell the driver, and go on; what it sends comes at any time after that."""
        say(at=self.end, pid=os.getpid(), rank=self.rank)

    def is_now(self, number: int) -> bool:
        """Return whether the batch just drawn is that of the moment."""
        plan = self.plan
        if self.moment == "between" or plan["is_at_start"]:
            return False
        if self.moment == "ahead":
            total = self.total()
            return number == 0 and self.batches >= total - plan["late"]
        if self.moment == "resumed" and plan["setting"] in SERVED:
            return number == 1 and self.batches == plan["at_batch"]
        return number == 0 and self.batches == min(plan["at_batch"], self.total())

    def restarts_now(self, number: int) -> bool:
        """Return whether the server is to be killed and started again."""
        is_cells = self.moment == "resumed" and not self.is_client()
        now = number == 0 and self.batches == RESTART_AT
        return is_cells and now and self.plan["role"] == "end"

    def total(self) -> int:
        """Return how many batches an epoch has at least."""
        kwargs = self.plan["kwargs"]
        factor = 1 if kwargs["factor"] == "auto" else kwargs["factor"]
        return int(self.plan["n"] * factor / kwargs["batch_size"])

    # ---- epochs

    def run(self) -> None:
        """Train for some epochs, and end."""
        if self.plan["is_at_start"]:
            self.due_outside()
        self.guarded(self.make)
        if self.loader is None:
            self.lift()
            if self.plan["is_over"]:
                return
            self.make()
        resumes = self.moment == "resumed" and self.is_client()
        if resumes and not self.guarded(self.resume):  # the server may have failed
            return
        for number in range(self.plan["epochs"]):
            if self.loader is None:  # dropped between two epochs
                break
            if not self.one_epoch(number):
                break
            if number == 0 and self.moment == "between":
                self.due_outside()

    def due_outside(self) -> None:
        with contextlib.suppress(Left):
            self.guarded(self.due)

    def guarded(self, work: Any) -> bool:
        """Do it; say which error it raised, if any that users may get."""
        try:
            work()
            return True
        except KeyboardInterrupt:
            self.hear_interrupt()
        except (echobuf.EchobufError, OSError, MemoryError, RuntimeError) as error:
            self.tell(error)
        return False

    def hear_interrupt(self) -> None:
        self.is_interrupted = True
        say(interrupted=True)

    def tell(self, error: BaseException) -> None:
        """Say what was raised, with all of its causes."""
        names, chain = [], error
        while chain is not None and len(names) < 9:
            names.append(f"{type(chain).__name__}: {_text(chain)}")
            chain = chain.__cause__ or chain.__context__
        ours = isinstance(error, echobuf.EchobufError)
        say(error=names, ours=ours, rank=self.rank)

    def resume(self) -> None:
        """Go on where another loader was: its books are gone on with, too."""
        self.loader = self.attached = None
        gc.collect()
        self.make(armed=False)
        books = Books(self.plan, self.lengths)
        at_end = self.plan["setting"].startswith("attached")
        batches = iter(self.loader)
        for count, batch in enumerate(batches, 1):
            books.take(batch)
            if count == self.plan["resume_after"] and not at_end:
                break
        state = json.loads(json.dumps(self.loader.state_dict()))
        del batches, batch
        self.loader = self.attached = None
        gc.collect()
        self.make()
        self.loader.load_state_dict(state)
        self.books = None if at_end else books

    def one_epoch(self, number: int) -> bool:
        """Draw one epoch; return whether there is to be another one."""
        self.batches = 0
        whole = False
        books = self.books or Books(self.plan, self.lengths)
        self.books = None
        try:
            if self.epoch is None:
                self.epoch = iter(self.loader)
            for batch in self.epoch:
                books.take(batch)
                self.batches += 1
                if self.restarts_now(number):
                    say(at="restart")
                if self.is_now(number):
                    self.due()
            whole = True
        except Left:
            pass
        except KeyboardInterrupt:
            self.hear_interrupt()
        except (echobuf.EchobufError, OSError, MemoryError, RuntimeError) as error:
            self.lift()
            self.tell(error)
        self.lift()
        if whole and self.cut_by_another_rank():
            say(cut=number)
        elif whole:
            books.finish()
            say(finished=number)
        else:
            say(left=number)
        if self.loader is None or (self.attached is None and self.is_served()):
            return False
        stays = self.plan["after"] == "again" and self.end != "hangs"
        if not whole and not stays:
            return False
        self.epoch = None
        return True

    def cut_by_another_rank(self) -> bool:
        return self.rank is not None and self.end == "ends" and self.rank == 0

    def is_served(self) -> bool:
        return self.plan["setting"] in SERVED

    def lift(self) -> None:
        if self.limit is not None:
            self.limit.__exit__(None, None, None)
            self.limit = None
            say(lifted=True)

    def awaits_signal(self) -> bool:
        """Return whether the driver is still about to send one to this process."""
        if self.is_due or not self.is_ours or not self.is_client():
            return False
        if self.end in ("sigterm", "sigkill"):
            return bool(self.plan["victim"] == "trainer")
        return self.end == "ctrl_c" and not self.is_interrupted

    def clear(self) -> None:
        """Drop all that the trial has."""
        self.loader = self.epoch = self.attached = self.books = None


def _text(error: BaseException) -> str:
    try:
        return str(error)[:20_000].encode(errors="backslashreplace").decode()
    except Exception as trouble:
        return f"(its text raises {trouble!r})"


KEPT: list[Any] = []


def main(plan: dict[str, Any], rank: int | None = None) -> None:
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = leaks.files()
    trial = Trial(plan, rank)
    try:
        try:
            trial.run()
            if trial.awaits_signal():
                time.sleep(_SOON_S)  # it comes while all is held
        except KeyboardInterrupt:
            trial.hear_interrupt()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        never_returns = plan["end"] == "hangs" and plan["leave"] == "ctrl_c"
        if plan["after"] == "exit" or never_returns:
            KEPT.append(trial)
        else:
            trial.clear()
            leaks.check(before)
        say(done=True, rank=rank)
    except KeyboardInterrupt:  # it came late
        say(interrupted=True)


def plan_of(argument: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(argument)
    return plan


def lines(text: str) -> Iterator[dict[str, Any]]:
    """Return what a program has said."""
    return (json.loads(line) for line in text.splitlines())


if __name__ == "__main__":
    main(plan_of(sys.argv[1]))
