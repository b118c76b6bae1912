"""The table of what examples carry that other processes make."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from echobuf import _core
from echobuf._engine.carry import Carried, Carrier
from echobuf.errors import UpstreamError
from echobuf.workers.object_log import JOB, TRAINER, ObjectLog, unpack


class LoggedCarried(Carried, ABC):
    """The objects of an epoch's examples that another process writes into a log.

    A row is there before its example can be drawn. A draw adds rows to the table, up to
    the last example that it has.

    Args:
        carrier: takes them out of the first item.
        first: the number of the first example of the epoch.
        log: has the rows.
    """

    def __init__(self, carrier: Carrier, first: int, log: ObjectLog) -> None:
        super().__init__(carrier, first, whole=False)
        self._log = log
        self._adding = threading.RLock()

    def columns(self, numbers: Any) -> list[list[Any]]:
        """Return, of each leaf, the objects of examples.

        Args:
            numbers: of the examples of a batch, in order.

        Raises:
            ItemError: they cannot be unpickled.
        """
        end = int(np.asarray(numbers).max()) + 1
        if self.objects.next < end:
            with self._adding:
                if self.objects.next < end:
                    self._add(self.objects.next, end)
        return super().columns(numbers)

    @abstractmethod
    def _add(self, first: int, end: int) -> None:
        """Add the objects of examples."""


class AttachedCarried(LoggedCarried):
    """The same, of a server, which writes rows by their positions in its ring.

    Args:
        carrier: stands for the server's.
        log: has the rows.
        base: the position of the first example of the epoch.
        seat: of the job at the server.
        check: raises if the server keeps nothing more for the job.
    """

    def __init__(
        self,
        carrier: Carrier,
        log: ObjectLog,
        base: int,
        seat: int,
        check: Callable[[], None],
    ) -> None:
        super().__init__(carrier, 0, log)
        self._base = base
        self._seat = seat
        self._check = check

    def _add(self, first: int, end: int) -> None:
        try:
            rows = self._log.read(range(self._base + first, self._base + end))
            for row, index in rows:
                self.objects.add(unpack(row, index, JOB), 1, False)
        except UpstreamError:
            self._check()
            raise
        self._log.note_needed(self._seat, self._base + end)


class PooledCarried(LoggedCarried):
    """The same, of a pool of workers, which writes rows by the numbers of items.

    Args:
        carrier: takes them out of the first item.
        first: the number of the first example of the epoch.
        log: has the rows.
        pool: the pool, and the term of the epoch, if examples enter as they arrive.
    """

    def __init__(
        self,
        carrier: Carrier,
        first: int,
        log: ObjectLog,
        pool: tuple[_core.WorkerPool, int] | None,
    ) -> None:
        super().__init__(carrier, first, log)
        self._first = first
        self._pool = pool
        self._first_item = 0
        self._items: list[int] = []  # of the examples from `_known` on
        self._known = first

    def begin(self, item: int) -> None:
        """Note the first item of the epoch, before it is submitted."""
        self._first_item = item
        self._log.begin(item)

    def _add(self, first: int, end: int) -> None:
        rows = self._log.take(self._items_of(first, end))
        for row, index in rows:
            self.objects.add(unpack(row, index, TRAINER), 1, False)

    def _items_of(self, first: int, end: int) -> list[int]:
        """Return the items that examples are."""
        if self._pool is None:
            begin = self._first_item - self._first
            return [*range(begin + first, begin + end)]
        if self._known + len(self._items) < end:
            core, term = self._pool
            entered = core.entered(term, first - self._first)
            if entered is None:
                raise IndexError("the pool is two epochs further")
            self._items, self._known = entered[0], first
        begin, stop = first - self._known, end - self._known
        return [self._first_item + item for item in self._items[begin:stop]]
