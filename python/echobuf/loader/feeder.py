"""The part of an epoch that iterates upstream and puts what it yields."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol

from echobuf import _core
from echobuf._core import CarriedObjects
from echobuf._engine.carry import Carried, Carrier, skip_objects
from echobuf.errors import (
    CapacityError,
    ClosedError,
    DeviceError,
    ItemError,
    SpecError,
    UpstreamError,
    message,
)
from echobuf.loader.items import length_of, skip
from echobuf.loader.states import Positions, Snapshots
from echobuf.loader.thread import UpstreamThread, wait_for_end
from echobuf.loader.unstacked import Unstacked, unstack
from echobuf.loader.upstream import UpstreamStart
from echobuf.resources import Signal, members
from echobuf.spec import Spec

_END = object()
_NEXT = object()

_AT_EXIT_S = 0.5
_MANY = 2**62

_feeders: weakref.WeakSet[Feeder] = weakref.WeakSet()


class Sink(Protocol):
    """A ring that a feeder puts into: a buffer, or a server's ring."""

    @property
    def spec(self) -> Spec:
        """The spec of one fresh example, or of one whole batch."""

    def put_tree(self, tree: Any, stacked: bool) -> None:
        """Put one example, or examples stacked on axis 0; wait for room."""

    def put_all(
        self,
        stacked: bool,
        term: int,
        items: Iterator[Any],
        most: int,
        carried: weakref.ref[CarriedObjects] | None = None,
    ) -> tuple[int, bool, tuple[int, int] | None, Any]:
        """Put items, up to the first that needs conversion: `LoaderBuffer.put_all`."""

    def refuse_put(self, code: int, accepted: int) -> NoReturn:
        """Raise for a put that ended with `code` after `accepted` examples."""

    def close(self) -> None:
        """Mark the end of upstream."""

    def fail(self, error: BaseException) -> None:
        """Fail the epoch with upstream's error."""

    def term(self) -> int:
        """Return a number that changes whenever an epoch is opened for `put`."""

    def abandon(self, term: int) -> None:
        """Fail the epoch of that term, if it is still open, without an error."""


class Feeder(ABC):
    """A call on upstream's thread that feeds one epoch into a ring.

    It holds neither the loader nor the loop that draws, so dropping those ends it: at
    once while it waits for room, else when upstream's current call returns. The exit of
    the interpreter waits a moment for it, no longer.

    Args:
        sink: open, for this epoch.
        thread: of upstream.
        start: of upstream; its items are let go of on the thread.
        term: of the epoch in the buffer.

    Attributes:
        stopped: set by `stop`; the thread then takes no further item.
        positions: completes the positions of the buffer in this epoch.
        carried: the objects of the epoch's examples; None where none are carried, and
            once the epoch has taken it over.
    """

    positions = Positions()
    carried: Carried | None = None

    def __init__(
        self, sink: Sink, thread: UpstreamThread, start: UpstreamStart, term: int
    ) -> None:
        self._sink = sink
        self._term = term
        self._process = os.getpid()
        self.stopped = Signal()
        self._task = thread.last(self._run, start)
        self._ended = False
        _feeders.add(self)  # first: Ctrl-C may come right after the start
        thread.submit(self._task)

    def stop(self) -> None:
        """Tell the thread to end, and do not wait for it."""
        # In this order: a put that the end of the epoch cuts off is then no failure.
        # The term: the thread may have ended by then, and the buffer be in another.
        self.stopped.set()
        sink: Sink | None = self._sink  # none after a failure
        if not self._ended and sink is not None:
            sink.abandon(self._term)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the thread has ended; Ctrl-C gets through.

        Args:
            timeout: seconds to wait at most.

        Returns:
            Whether it has.
        """
        if self._task.is_current():
            return False
        if timeout is not None:
            self._task.join(timeout)
            return not self._task.is_alive()
        wait_for_end(self._task.is_alive, self._task.join)
        return True

    def end(self) -> None:
        """End the thread; wait until upstream's current call returns."""
        self.stop()
        self.join()

    def feeds(self, sink: Sink) -> bool:
        """Return True if it was made for that ring."""
        return self._sink is sink

    def to_skip(self) -> int:
        """Return how many examples before a loaded state are still to come."""
        return 0

    def is_alive(self) -> bool:
        """Return True while the thread feeds the epoch."""
        return self._task.is_alive()

    @abstractmethod
    def _run(self, start: UpstreamStart) -> None:
        """Feed the epoch, on the thread."""


class ItemFeeder(Feeder):
    """A feeder of what upstream yields; otherwise as `Feeder`.

    Args:
        sink: open, for this epoch.
        thread: of upstream.
        start: of upstream.
        stacked: items hold examples stacked on axis 0.
        decode: finds the ragged leaves of a batch.
        carrier: takes the leaves out of items that are no arrays; None without such.
        first: the number of the first example that the buffer needs.
        read: brings an item into the form that the buffer takes.
        skipped: examples at the start that a resumed buffer does not need.
        snapshots: take upstream's state between items; None if it has none.
    """

    def __init__(
        self,
        sink: Sink,
        thread: UpstreamThread,
        start: UpstreamStart,
        *,
        stacked: bool,
        decode: Callable[[Any], Any] | None,
        carrier: Carrier | None,
        first: int,
        read: Callable[[Any], Any],
        skipped: int,
        snapshots: Snapshots | None,
    ) -> None:
        term = sink.term()
        self._objects: weakref.ref[CarriedObjects] | None = None
        if carrier is not None:
            whole = bool(sink.spec.batch_axis)
            self.carried = Carried(carrier, first, whole=whole)
            self._objects = weakref.ref(self.carried.objects)
        # Of items that the core takes as they are; no call of Python's in between.
        self._put_all = functools.partial(
            sink.put_all, stacked, term, carried=self._objects
        )
        self._stacked = stacked
        self._decode = decode
        self._carrier = carrier
        self._read = read
        self._count = 0  # items that upstream has yielded
        self._skipped = skipped
        self._snapshots = snapshots
        if snapshots is not None:
            self.positions = snapshots
        super().__init__(sink, thread, start, term)

    def to_skip(self) -> int:
        """Return how many examples before a loaded state are still to come."""
        return self._skipped

    def _run(self, start: UpstreamStart) -> None:
        items, item = start.take()
        unstacked: Unstacked | None = None
        try:
            unstacked = self._unstack(items, item)
            while item is not _END and not self.stopped.is_set():
                self._feed(item)
                item = _NEXT
                if unstacked is not None:
                    item = self._put_unstacked(unstacked)
                    unstacked = None
                elif most := self.most_at_once():
                    item = self._note(self._put_all(items, most))
                if item is _NEXT:
                    item = next(items, _END)
            # Once it was stopped, the buffer may be in an epoch of another thread.
            if item is _END and not self.stopped.is_set():
                self._ended = True
                if self._snapshots is not None:
                    self._snapshots.ended()
                self._sink.close()
        except BaseException as error:
            # The error keeps this frame; what upstream holds must go all the same.
            del items, item, unstacked
            if os.getpid() != self._process:
                raise  # a child that upstream has forked
            if not self.stopped.is_set():
                # A buffer that was left, or whose device is gone, says so itself.
                with contextlib.suppress(ClosedError, DeviceError):
                    self._sink.fail(error)
                # The ring keeps the error, and that these frames: they let the ring go.
                self._ended = True
                self._sink = self._put_all = None  # type: ignore[assignment]

    def _note(self, fed: tuple[int, bool, tuple[int, int] | None, Any]) -> Any:
        """Note what the core has put.

        Args:
            fed: what `put_all` has returned.

        Returns:
            The item that the core does not take as it is; or the end; or that the next
            item is to be asked for.
        """
        count, has_ended, refused, item = fed
        self._count += count
        if self._snapshots is not None:
            self._snapshots.skip(count)
        if has_ended:
            return _END
        if refused is None:
            return _NEXT
        if refused[0] != _core.MISMATCH:
            self._sink.refuse_put(*refused)
        return item

    def _unstack(self, items: Iterator[Any], first: Any) -> Unstacked | None:
        """Return the examples of items that are batches, if these need not be made."""
        are_batches = self._stacked and not self._sink.spec.batch_axis
        converts = self._decode is not None or self._carrier is not None
        if converts or not are_batches or self.most_at_once() < _MANY:
            return None
        return unstack(items, first)

    def _put_unstacked(self, unstacked: Unstacked) -> Any:
        """Put examples up to one to convert; return its batch, or the end."""
        try:
            _, has_ended, refused, _ = self._sink.put_all(
                False, self._term, iter(unstacked), _MANY
            )
        finally:
            unstacked.restore()
        self._count += unstacked.count
        if has_ended:
            return _END
        assert refused is not None
        if refused[0] != _core.MISMATCH:
            self._sink.refuse_put(*refused)
        self._count -= 1  # `_feed` counts it
        batch = unstacked.stack()
        return _END if batch is None else batch

    def most_at_once(self) -> int:
        """Return how many items may pass that only the core looks at."""
        if self._skipped or (self._carrier is not None and any(self._carrier.bare)):
            return 0
        if self._snapshots is None:
            return _MANY
        return 0 if self._stacked else self._snapshots.until_next()

    def _feed(self, item: Any) -> None:
        if refused := self._put(item):  # raised where no error of the ring's is handled
            raise refused

    def _put(self, item: Any) -> UpstreamError | None:
        """Put an item; return the error for one that does not fit."""
        self._count += 1
        objects: list[Any] = []
        try:
            if self._decode is not None:
                item = self._decode(item)
            if self._carrier is not None:
                item, objects = self._carrier.split(item)
            item = self._read(item)
            if self._snapshots is not None:  # before what it yielded is served
                self._snapshots.passed(length_of(item) if self._stacked else 1)
            if self._skipped:
                length = length_of(item) if self._stacked else 1
                item = self._skip(item)
                if item is None:
                    return None
                if self._stacked:
                    objects = skip_objects(objects, length, length_of(item))
            self._carry(objects, item)
            del objects  # which may refer to the loader, while the put waits
            self._sink.put_tree(item, self._stacked)
        except ItemError:
            raise
        except SpecError as error:
            refused: UpstreamError = ItemError(self._does_not_fit(error))
            refused.__cause__ = error.__cause__
            error.__traceback__ = None
            return refused
        except CapacityError as error:
            refused = UpstreamError(
                f"item {self._count - 1} of upstream is too large: {message(error)}"
            )
            refused.__cause__ = error.with_traceback(None)
            return refused
        return None

    def _carry(self, objects: list[Any], item: Any) -> None:
        """Add the objects of an item that is put next."""
        table = None if self._objects is None else self._objects()
        if table is not None:
            are_many = self._stacked or self._sink.spec.batch_axis
            table.add(objects, length_of(item) if are_many else 1, self._stacked)

    def _does_not_fit(self, error: SpecError) -> str:
        number = self._count - 1
        if not number:  # its values do not fit the arguments, or an earlier epoch
            return f"item 0 of upstream does not fit: {message(error)}"
        are_batches = self._stacked or self._sink.spec.batch_axis
        hint = "" if are_batches else " If upstream yields batches: batched=True."
        return (
            f"item {number} of upstream does not fit the first one: "
            f"{message(error)}{hint}"
        )

    def _skip(self, item: Any) -> Any:
        if not self._stacked:
            self._skipped -= 1
            return None
        length = length_of(item)
        cut = min(length, self._skipped)
        self._skipped -= cut
        return skip(item, cut) if cut < length else None


def stop_feeding(sink: Sink) -> list[Feeder]:
    """Stop every thread that feeds a ring; return those that still run."""
    feeders = [each for each in members(_feeders) if each.feeds(sink)]
    for feeder in feeders:
        feeder.stop()
    return [each for each in feeders if each.is_alive()]


def _stop_all() -> None:
    """End the threads, if upstream's current calls return soon.

    One that native code of upstream's (torch's) is still in when the interpreter goes
    is ended by Python where it next asks for the GIL.
    """
    feeders = members(_feeders)
    for feeder in feeders:
        feeder.stop()
    deadline = time.monotonic() + _AT_EXIT_S
    for feeder in feeders:
        feeder.join(max(0.0, deadline - time.monotonic()))


atexit.register(_stop_all)
