"""One worker as its trainer sees it: a process, and the pipe to it."""

from __future__ import annotations

import pickle
import signal
from multiprocessing.reduction import DupFd
from typing import Any

from echobuf import _core
from echobuf.errors import OptionError, UpstreamError
from echobuf.workers.process import run
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
        self.process = context.Process(
            target=run,
            args=(task, _Descriptor(core.board()), _Descriptor(core.slots()), theirs),
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

    @property
    def sentinel(self) -> int:
        """Ready once the process has ended."""
        return int(self.process.sentinel)

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
        if not self.is_ready:
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


class _Descriptor:
    """A descriptor of this process, which becomes the child's when it is sent."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> Any:
        return _received, (DupFd(self._number),)


def _received(descriptor: Any) -> Any:
    return descriptor
