"""The worker processes of a loader, which end with it or with the interpreter."""

from __future__ import annotations

import atexit
import contextlib
import time
import weakref
from typing import TYPE_CHECKING, Any

from echobuf import _core
from echobuf._engine.engine import Engine
from echobuf.workers.messages import WorkerConfig
from echobuf.workers.process import PATIENCE_S
from echobuf.workers.settings import WorkerSettings
from echobuf.workers.supervisor import Supervisor

if TYPE_CHECKING:
    from echobuf.loader.adapter import Adapter

_QUEUE_DEPTH = 16  # examples that a worker may have outstanding
_EXIT_TIMEOUT_S = 4 * PATIENCE_S  # workers that must be killed take 3 of them

_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


class WorkerPool:
    """The worker processes of a loader, for all of its epochs.

    Dropping the pool asks the workers to end, and does not wait for them.

    Args:
        settings: number of workers, and the way to start them.
        dataset: read by each worker, which gets a copy.
        adapter: reads the items of the dataset.
        example: the first example.
        engine: of the buffer, whose slots are shared.

    Attributes:
        core: the native pool: queues and tickets.
        supervisor: the part that threads hold; it holds no reference to the pool.

    Raises:
        OptionError: `dataset` cannot be sent to another process.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        dataset: Any,
        adapter: Adapter,
        example: Any,
        engine: Engine,
    ) -> None:
        backend = engine.backend
        configs = [
            WorkerConfig(
                number=number,
                count=settings.count,
                dataset=dataset,
                adapter=adapter,
                example=example,
                fields=engine.spec.fields,
                capacity=backend.slots,
                seed=engine.options.seed,
                init=settings.init,
            )
            for number in range(settings.count)
        ]
        self.core: _core.WorkerPool = backend.worker_pool(
            backend.core,  # type: ignore[arg-type]
            settings.count,
            _QUEUE_DEPTH,
        )
        self.supervisor = Supervisor(settings, self.core, configs, weakref.ref(engine))
        # At interpreter exit `_close_all` does this, while modules are still there.
        weakref.finalize(self, self.supervisor.close).atexit = False
        _pools.add(self)


def _close_all() -> None:
    """End the workers of all pools before the interpreter exits."""
    supervisors = [pool.supervisor for pool in list(_pools)]
    for supervisor in supervisors:
        supervisor.close()
    deadline = time.monotonic() + _EXIT_TIMEOUT_S
    with contextlib.suppress(KeyboardInterrupt):  # workers end with this process
        for supervisor in supervisors:
            supervisor.join(deadline)


atexit.register(_close_all)
