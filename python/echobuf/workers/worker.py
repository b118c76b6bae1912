"""One worker as its trainer sees it: a process, and the pipe to it."""

from __future__ import annotations

import pickle
import signal
from typing import Any

from echobuf import _core
from echobuf.errors import OptionError, UpstreamError
from echobuf.workers.process import run
from echobuf.workers.sending import Descriptor, Parcel
from echobuf.workers.settings import Settings
from echobuf.workers.task import Task


class Worker:
    """A process that was started.

    Args:
        settings: how.
        core: whose tickets it takes.
        task: what it does.

    Raises:
        OptionError: what it needs cannot be sent to it.
    """

    def __init__(self, settings: Settings, core: _core.Crew, task: Task) -> None:
        self.number = task.number
        self.is_ready = False
        self.pipe, theirs = settings.context.Pipe()
        context: Any = settings.context
        parcel = Parcel(task)
        self.process = context.Process(
            target=run,
            args=(parcel, Descriptor(core.board()), Descriptor(core.slots()), theirs),
            name=f"echobuf-worker-{task.number}",
            daemon=True,
        )
        try:
            self.process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self.pipe.close()
            raise OptionError(
                f"`upstream` cannot be sent to worker processes: {error}. Its class, "
                "and what it holds, must be picklable: define it in a module, open "
                "files and connections in its first `__getitem__`."
            ) from error
        except BaseException:
            self.pipe.close()
            raise
        finally:
            theirs.close()
            parcel.close()

    @property
    def sentinel(self) -> int:
        """Ready once the process has ended."""
        return int(self.process.sentinel)

    @property
    def is_hopeless(self) -> bool:
        """Whether it ended by itself before it began: another one would, too."""
        return not self.is_ready and (self.process.exitcode or 0) >= 0

    def end(self, timeout: float) -> None:
        """Waits for the process, told to end already; ends it if it does not."""
        for insist in (None, self.process.terminate, self.process.kill):
            if insist is not None:
                insist()
            self.process.join(timeout)
            if self.process.exitcode is not None:
                break
        self.pipe.close()

    def death(self, restarts: int) -> UpstreamError:
        """The error for a process that has ended by itself."""
        code = self.process.exitcode
        how = f"with exit code {code}"
        if code is not None and code < 0:
            how = f"by signal {-code} ({signal.Signals(-code).name})"
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
