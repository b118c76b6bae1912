"""The part of a loader that worker processes have: made with its buffer."""

from __future__ import annotations

import time
from typing import Any

from echobuf.buffer import EchoBuffer
from echobuf.loader.adapter import Adapter
from echobuf.loader.order import Order
from echobuf.loader.upstream import Start
from echobuf.workers.crew import Crew
from echobuf.workers.feeder import WorkerFeeder
from echobuf.workers.settings import Settings

_AT_CLOSE_S = 10.0  # for workers in the middle of an example


class Workforce:
    """Starts the workers when the first epoch is fed.

    Args:
        settings: of the workers.
        order: what the loader iterates: indices.
        adapter: of the loader.

    Attributes:
        crew: the workers, once they were started.
        example: the first one, from which the spec is inferred.
        is_pool: these are processes of its own.
    """

    is_pool = True

    def __init__(self, settings: Settings, order: Order, adapter: Adapter) -> None:
        self._settings = settings
        self._dataset = order.dataset
        self._adapter = adapter
        self.crew: Crew | None = None
        self._has_example = False
        self.example: Any = None

    def close(self) -> None:
        """End the workers, and wait for those that end when they are told."""
        if self.crew is not None:
            self.crew.watch.close()
            self.crew.watch.join(time.monotonic() + _AT_CLOSE_S)

    def is_ready(self) -> bool:
        """Whether an epoch can be begun without waiting."""
        return True

    def check(self, start: Start) -> Start:
        """Makes the first example, in this process, unless there was one before."""
        if start.items is None or self._has_example:
            return start
        try:
            self.example = self._dataset[start.first]
        except Exception as error:
            return Start(error=error)
        self._has_example = True
        return start

    def feed(self, buffer: EchoBuffer, start: Start, needed: int) -> WorkerFeeder:
        """Feeds an epoch, from its fresh example `needed` on.

        Raises:
            OptionError: the dataset cannot be sent to other processes.
        """
        if self.crew is None:
            self.crew = Crew(
                self._settings,
                self._dataset,
                self._adapter.in_worker(),
                self.example,
                buffer,
            )
        assert start.items is not None
        return WorkerFeeder(
            self.crew.core,
            self.crew.watch,
            buffer,
            start.items,
            start.first,
            skipped=needed,
        )
