"""One worker as its trainer sees it: a process, and the pipe to it."""

from __future__ import annotations

import contextlib
import multiprocessing.process
import os
import pickle
import signal
import time
import weakref
from collections.abc import Iterator
from multiprocessing import connection, resource_tracker
from multiprocessing.reduction import ForkingPickler
from typing import Any

from echobuf import _core
from echobuf.describe_error import message
from echobuf.errors import OptionError, UpstreamError
from echobuf.workers.process import run
from echobuf.workers.sending import Descriptor, Parcel
from echobuf.workers.settings import Settings
from echobuf.workers.task import Task

PATIENCE_S = 1.0  # with workers that were told to end

_started: weakref.WeakSet[Any] = weakref.WeakSet()


class Worker:
    """A process that was started.

    Args:
        settings: how.
        core: whose tickets it takes.
        task: what it does.

    Attributes:
        is_ready: whether it has said that it begins.
        is_silent: whether it will say no more.

    Raises:
        OptionError: what it needs cannot be sent to it.
    """

    def __init__(self, settings: Settings, core: _core.Crew, task: Task) -> None:
        self.number = task.number
        self.is_ready = False
        self.is_silent = False
        self._handle: int | None = None
        self.pipe, theirs = settings.context.Pipe()
        trainer = _open_handle(os.getpid())
        context: Any = settings.context
        parcel = Parcel(task)
        shared = [core.board(), core.slots(), *([] if trainer is None else [trainer])]
        self.process = context.Process(
            target=run,
            args=(parcel, theirs, *map(Descriptor, shared)),
            name=f"echobuf-worker-{task.number}",
            daemon=True,
        )
        try:
            with _no_interrupts(context):
                self.process.start()
            _started.add(self.process)
        except (pickle.PicklingError, AttributeError, TypeError, ValueError) as error:
            self.pipe.close()
            raise OptionError(_unsendable(task, error)) from error
        except BaseException:
            self.pipe.close()
            raise
        finally:
            theirs.close()
            parcel.close()
            if trainer is not None:
                os.close(trainer)
        self._handle = _open_handle(self.process.pid)

    @property
    def sentinel(self) -> int:
        """Ready once the process has ended."""
        # The other is a pipe, which what the process has forked may keep open.
        return int(self.process.sentinel) if self._handle is None else self._handle

    @property
    def is_hopeless(self) -> bool:
        """Whether it ended by itself before it began: another one would, too."""
        return not self.is_ready and (self.process.exitcode or 0) >= 0

    def bury(self) -> None:
        """Gives back what a process had that has ended."""
        if self.process.exitcode is None:
            self.process.join(PATIENCE_S)
        self.pipe.close()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def death(self, restarts: int) -> UpstreamError:
        """The error for a process that has ended by itself."""
        code = self.process.exitcode
        how = f"with exit code {code}"
        if code is None:  # SIGCHLD is ignored, or somebody else has waited for it
            how = "with an exit code that this process was not told"
        elif code < 0:
            how = f"by signal {-code} ({_name(-code)})"
        if self.is_hopeless:
            return UpstreamError(
                f"worker process {self.number} ended {how} before its first example. "
                "A script that makes a loader with workers must do so under "
                '`if __name__ == "__main__":`, or each worker runs it again.'
            )
        return UpstreamError(
            f"worker process {self.number} ended {how}; `max_restarts` allows "
            f"{restarts} restarts in an epoch. SIGKILL is often the system, out of "
            "memory; SIGSEGV native code of upstream's."
        )


def end_all(workers: list[Worker], patience_s: float) -> None:
    """Waits for workers that were told to end; ends those that do not."""
    left: dict[Any, Worker] = {worker.sentinel: worker for worker in workers}
    for insist in ("", "terminate", "kill"):
        for worker in left.values():
            if insist:
                getattr(worker.process, insist)()
        deadline = time.monotonic() + patience_s
        while left and time.monotonic() < deadline:
            for each in connection.wait(list(left), deadline - time.monotonic()):
                left.pop(each).bury()
    for worker in left.values():
        worker.bury()


def _forget() -> None:
    """In a forked child, whose exit would end what `multiprocessing` knows of."""
    known: Any = getattr(multiprocessing.process, "_children", set())
    known.difference_update(_started)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _open_handle(process: int | None) -> int | None:
    """A descriptor that is ready once the process has ended; None: none to be had."""
    try:
        return os.pidfd_open(process or 0)
    except OSError:
        return None


@contextlib.contextmanager
def _no_interrupts(context: Any) -> Iterator[None]:
    """A process that is started here does not see Ctrl-C before it can ignore it."""
    if context.get_start_method() != "spawn":  # the fork server would keep it so
        yield
        return
    resource_tracker.ensure_running()  # which lets them through again
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def _unsendable(task: Task, error: Exception) -> str:
    try:
        ForkingPickler.dumps(task.init)
    except Exception:
        return (
            f"`worker_init_fn` is {task.init!r}, which cannot be sent to worker "
            f"processes: {message(error)}. Define it at the top of a module."
        )
    return (
        f"`upstream` cannot be sent to worker processes: {message(error)}. Its class, "
        "and what it holds, must be picklable: define it in a module, open files and "
        "connections in its first `__getitem__`."
    )


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"
