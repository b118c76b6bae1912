"""A worker process as its trainer sees it, and the pipe to it."""

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
from multiprocessing.reduction import ForkingPickler, send_handle
from typing import Any

from echobuf import _core
from echobuf.errors import OptionError, UpstreamError, message
from echobuf.resources import members
from echobuf.workers.main import run_worker
from echobuf.workers.messages import (
    FAILED,
    GO_ON,
    ITEM,
    Descriptor,
    Payload,
    RecordConfig,
    WorkerConfig,
    unpack_error,
)
from echobuf.workers.object_log import TRAINER, ObjectLog, unpack
from echobuf.workers.settings import WorkerSettings

PATIENCE_S = 1.0  # for workers that were asked to end
_SLICE_S = 0.1

_started: weakref.WeakSet[Any] = weakref.WeakSet()


class WorkerProcess:
    """A worker process, started by the constructor.

    Args:
        settings: the way to start it.
        core: the native pool whose items the worker takes; None for a worker that
            is started before it, and may be asked for examples until it goes on.
        config: sent to the worker.
        log: gets what examples carry; None where they carry nothing.

    Attributes:
        number: of the worker.
        start: number of processes that the loader had started before this one.
        is_ready: the worker has reported that it was set up.
        is_pipe_closed: no further message can come.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        core: _core.WorkerPool | None,
        config: WorkerConfig,
        log: ObjectLog | None = None,
    ) -> None:
        self.number = config.number
        self.start = config.start
        self.is_ready = False
        self.is_pipe_closed = False
        self._pidfd: int | None = None
        self.pipe, theirs = settings.context.Pipe()
        trainer = _open_pidfd(os.getpid())
        context: Any = settings.context
        payload = Payload(config)
        shared = () if core is None else _shared(core, log)
        self.process = context.Process(
            target=run_worker,
            args=(
                payload,
                theirs,
                None if trainer is None else Descriptor(trainer),
                *map(Descriptor, shared),
            ),
            name=f"echobuf-worker-{config.number}",
            daemon=True,
        )
        try:
            with _sigint_blocked(context):
                self.process.start()
            _started.add(self.process)
        except (pickle.PicklingError, AttributeError, TypeError, ValueError) as error:
            self.pipe.close()
            raise OptionError(_pickling_error(config, error)) from error
        except BaseException:
            self.pipe.close()
            raise
        finally:
            theirs.close()
            payload.close()
            if trainer is not None:
                os.close(trainer)
        self._pidfd = _open_pidfd(self.process.pid)

    @property
    def sentinel(self) -> int:
        """Descriptor that is readable once the process has ended."""
        # Process.sentinel is a pipe, which children of the worker may keep open.
        return int(self.process.sentinel) if self._pidfd is None else self._pidfd

    @property
    def failed_at_start(self) -> bool:
        """True if the worker exited before it was set up: a new one would, too."""
        code = self.process.exitcode or 0
        # 255 is what `multiprocessing` says where a fork server has not told the code.
        return not self.is_ready and 0 <= code != 255

    def ask(self, index: int) -> Any:
        """Return an example that the worker makes before it has a pool."""
        is_asked = False
        while True:
            if self.is_ready and not is_asked:
                self._send((ITEM, index))
                is_asked = True
            if not self.pipe.poll(_SLICE_S):
                if self.process.is_alive():
                    continue
                if not self.pipe.poll():
                    raise EOFError
            try:
                what, _, packed = self.pipe.recv()
            except OSError:
                raise EOFError from None
            if what == ITEM:
                return unpack(packed, index, TRAINER)
            if what == FAILED:
                raise unpack_error(packed)
            self.is_ready = True

    def go_on(
        self, core: _core.WorkerPool, record: RecordConfig, log: ObjectLog | None
    ) -> None:
        """Let a worker that has made the first example take items of a pool."""
        self._send((GO_ON, pickle.dumps(record)))
        for each in _shared(core, log):
            try:
                send_handle(self.pipe, each, self.process.pid)
            except OSError:
                raise EOFError from None

    def _send(self, message: Any) -> None:
        try:
            self.pipe.send(message)
        except OSError:
            raise EOFError from None

    def drop(self) -> None:
        """Let a worker that has no pool end, and do not wait for it."""
        self.pipe.close()
        self._close_pidfd()

    def reap(self) -> None:
        """Release the pipe and the descriptor of a process that has ended."""
        if self.process.exitcode is None:
            self.process.join(PATIENCE_S)
        self.pipe.close()
        self._close_pidfd()

    def _close_pidfd(self) -> None:
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            os.close(pidfd)

    def death_error(self, restarts: int) -> UpstreamError:
        """Return the error for a worker that has died."""
        code = self.process.exitcode
        how = f"with exit code {code}"
        if code is None:  # SIGCHLD is ignored, or other code has waited for it
            how = "with an unknown exit code"
        elif code < 0:
            how = f"by signal {-code} ({_signal_name(-code)})"
        if self.failed_at_start:
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


def _shared(core: _core.WorkerPool, log: ObjectLog | None) -> list[int]:
    """Return descriptors of the memory that a pool shares with its workers."""
    shared = [core.control_block_fd(), core.memory_fd()]
    return shared if log is None else [*shared, log.descriptor]


def join_all(workers: list[WorkerProcess], patience_s: float) -> None:
    """Wait for workers that were asked to end; terminate or kill the others."""
    left: dict[Any, WorkerProcess] = {worker.sentinel: worker for worker in workers}
    for insist in ("", "terminate", "kill"):
        for worker in left.values():
            if insist:
                getattr(worker.process, insist)()
        deadline = time.monotonic() + patience_s
        while left and time.monotonic() < deadline:
            for each in connection.wait(list(left), deadline - time.monotonic()):
                left.pop(each).reap()
    for worker in left.values():
        worker.reap()


def _forget_in_child() -> None:
    """Forget all workers in a forked child, whose exit would terminate them."""
    known: Any = getattr(multiprocessing.process, "_children", set())
    known.difference_update(members(_started))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def _open_pidfd(process: int | None) -> int | None:
    """Return a descriptor that is readable once the process has ended, or None."""
    try:
        return os.pidfd_open(process or 0)
    except (AttributeError, OSError):  # a Python for musl may have no such function
        return None


@contextlib.contextmanager
def _sigint_blocked(context: Any) -> Iterator[None]:
    """Hold Ctrl-C back from a process that starts here until it can ignore it."""
    if context.get_start_method() != "spawn":  # a fork server would keep the mask
        yield
        return
    resource_tracker.ensure_running()  # which unblocks the signal
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def _pickling_error(config: WorkerConfig, error: Exception) -> str:
    try:
        ForkingPickler.dumps(config.init)
    except Exception:
        return (
            f"`worker_init_fn` is {config.init!r}, which cannot be sent to worker "
            f"processes: {message(error)}. Define it at the top of a module."
        )
    return (
        f"`upstream` cannot be sent to worker processes: {message(error)}. Its class, "
        "and what it holds, must be picklable: define it in a module, open files and "
        "connections in its first `__getitem__`."
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"
