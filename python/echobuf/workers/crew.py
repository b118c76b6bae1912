"""The worker processes of a loader, as long as somebody draws from it."""

from __future__ import annotations

import atexit
import contextlib
import time
import weakref
from typing import Any

from echobuf import _core
from echobuf._engine.engine import Engine
from echobuf.loader.adapter import Adapter
from echobuf.workers.settings import Settings
from echobuf.workers.task import Task
from echobuf.workers.watch import Watch
from echobuf.workers.worker import PATIENCE_S

_AHEAD = 16  # examples that a worker is told at a time
_AT_EXIT_S = 4 * PATIENCE_S  # those that must be killed take 3 of them

_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


class Crew:
    """The workers of a loader, for all of its epochs.

    Dropping it ends them; nothing waits for that.

    Args:
        settings: how many, and how they are started.
        dataset: that each reads, as a copy of its own.
        adapter: that reads its items.
        example: the first one.
        engine: of the buffer that they write into.

    Attributes:
        core: their tickets.
        watch: what threads know of them, which must not hold this.

    Raises:
        OptionError: `dataset` cannot be sent to another process.
    """

    def __init__(
        self,
        settings: Settings,
        dataset: Any,
        adapter: Adapter,
        example: Any,
        engine: Engine,
    ) -> None:
        backend = engine.backend
        tasks = [
            Task(
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
        self.core: _core.Crew = backend.crew(backend.core, settings.count, _AHEAD)  # type: ignore[arg-type]
        self.watch = Watch(settings, self.core, tasks, weakref.ref(engine))
        # As the interpreter goes away `_end_all` has done it, and modules are gone.
        weakref.finalize(self, self.watch.close).atexit = False
        _crews.add(self)


def _end_all() -> None:
    """Ends the workers before the interpreter goes."""
    watches = [crew.watch for crew in list(_crews)]
    for watch in watches:
        watch.close()
    deadline = time.monotonic() + _AT_EXIT_S
    with contextlib.suppress(KeyboardInterrupt):  # workers see that this process ends
        for watch in watches:
            watch.join(deadline)


atexit.register(_end_all)
