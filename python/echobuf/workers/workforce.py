"""The part of a loader that worker processes have: made with its buffer."""

from __future__ import annotations

import time
from typing import Any

from echobuf._engine.engine import Engine
from echobuf.loader.adapter import Adapter
from echobuf.loader.order import Order
from echobuf.loader.readers import FeedRequest
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
        settings: of the workers.
        pool: the workers, once they were started.
        is_pool: these are processes of its own.
    """

    is_pool = True

    def __init__(self, settings: Settings, order: Order, adapter: Adapter) -> None:
        self.settings = settings
        self._dataset = order.dataset
        self._adapter = adapter
        self.pool: Crew | None = None
        self._has_example = False
        self._example: Any = None

    def close(self) -> None:
        """End the workers, and wait for those that end when they are told."""
        if self.pool is not None:
            self.pool.watch.close()
            self.pool.watch.join(time.monotonic() + _AT_CLOSE_S)

    def is_ready(self) -> bool:
        """Whether an epoch can be begun without waiting."""
        return True

    def check(self, start: Start) -> Start:
        """Makes the first example, in this process, unless there was one before."""
        if start.items is None or self._has_example:
            return start
        try:
            self._example = self._dataset[start.first]
        except Exception as error:
            return Start(error=error)
        self._has_example = True
        return start

    def first_item(self, start: Start) -> Any:
        """Return the first example, from which the spec is inferred."""
        return self._example

    def feed(self, engine: Engine, request: FeedRequest) -> WorkerFeeder:
        """Begin to feed an epoch through the workers, which it starts the first time.

        Raises:
            OptionError: the dataset cannot be sent to other processes.
        """
        if self.pool is None:
            self.pool = Crew(
                self.settings,
                self._dataset,
                self._adapter.in_worker(),
                self._example,
                engine,
            )
        start = request.start
        assert start.items is not None
        return WorkerFeeder(
            self.pool.core,
            self.pool.watch,
            engine,
            start.items,
            start.first,
            skipped=request.needed,
        )
