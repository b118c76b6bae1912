"""One epoch: the iterator that a training loop draws batches from."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from echobuf._engine.termination import upstream_failed
from echobuf.buffer import EchoBuffer, engine_of, next_within
from echobuf.errors import ClosedError, ItemError, UpstreamError, UpstreamStateError
from echobuf.loader.draw_wait import DrawWait
from echobuf.loader.epoch_feed import EpochFeed
from echobuf.loader.upstream_states import with_upstream
from echobuf.loader.upstream_thread import closed_error
from echobuf.progress import slice_s
from echobuf.resources import Uncopied
from echobuf.state import State

_Result = TypeVar("_Result")


class EpochIterator(Uncopied, Iterator[Any]):
    """Draws the batches of one epoch, and stops upstream when it is dropped.

    Several threads may draw from it: each batch goes to one of them.

    Args:
        run: what was begun for it.
        first: called before the first draw, says what to draw from.
        finished: called once, when everything has been served.
        overlap: called after each draw, to begin the next epoch's upstream, until it
            returns True.

    Attributes:
        number: of the epoch.
    """

    _called = "an iterator of an EchoLoader"

    def __init__(
        self,
        run: EpochFeed,
        first: Callable[[EpochFeed], EpochFeed],
        finished: Callable[[], None],
        overlap: Callable[[], bool] | None = None,
    ) -> None:
        self.number = run.number
        self._run: EpochFeed | None = run  # None: at the end
        self._buffer: EchoBuffer | None = None  # from the first draw on
        self._first: Callable[[EpochFeed], EpochFeed] | None = first
        self._finished: Callable[[], None] | None = finished
        self._overlap = overlap
        self._held: Any = None  # a batch drawn before Ctrl-C came
        self._wait: DrawWait | None = None  # over draws with a timeout
        self._superseded = False
        self._is_closed = False  # the loader
        # Held while the first batch is asked for, at the end, and during a draw that
        # may begin the next epoch; never by what ends the epoch from outside.
        self._changing = threading.RLock()

    def __iter__(self) -> EpochIterator:
        return self

    def __next__(self) -> Any:
        return self.draw(None)

    def draw(self, timeout: float | None) -> Any:
        """Return the next batch.

        Args:
            timeout: seconds to wait for upstream at most.

        Raises:
            TimeoutError: the time ran out; nothing is lost.
            StopIteration, UpstreamError, ClosedError: as `next`.
        """
        buffer = self._buffer
        if buffer is None:
            buffer = self._opened()
        if self._overlap is None:
            return self._draw(buffer, timeout)
        with self._changing:
            return self._draw(buffer, timeout)

    def _opened(self) -> EchoBuffer:
        """Return the buffer before the first draw; raise if there is none."""
        with self._changing:
            if self._run is None and not self._superseded:
                raise StopIteration
            run = self.start()
            if run.error is not None:
                raise run.error
            if self._buffer is None:
                self._end()
                raise StopIteration
            return self._buffer

    def _draw(self, buffer: EchoBuffer, timeout: float | None) -> Any:
        try:
            batch = self._held
            if batch is None and timeout is None:
                batch = next_within(buffer, slice_s())
            if batch is None:
                batch = self._draw_late(buffer, timeout)
        except StopIteration:
            self._end()
            raise
        except ClosedError:
            if self._is_closed:  # meanwhile, by another thread
                raise closed_error() from None
            raise
        except UpstreamError as error:
            explained = _explain(error)
            raise explained from explained.__cause__
        except RuntimeError as error:
            # torch's signal handler raises it on the main thread, wherever that is.
            if not str(error).startswith("DataLoader worker (pid"):
                raise
            raise upstream_failed(error) from error
        if self._overlap is not None:
            self._held = batch
            is_begun = self._overlap()
            self._held = None  # first: without `_overlap` threads draw side by side
            if is_begun:
                self._overlap = None
        return batch

    def _draw_late(self, buffer: EchoBuffer, timeout: float | None) -> Any:
        """Return the next batch; report the wait for it, if that lasts.

        Raises:
            TimeoutError: the time ran out; the next call goes on with the wait.
        """
        run = self._run
        if timeout is None:
            # Of this call alone: other threads may draw from this iterator, too.
            wait = None if run is None else DrawWait(buffer, run, slice_s() or 0.0)
            while (batch := next_within(buffer, slice_s())) is None:
                if wait is not None:
                    wait.tick()
            return batch
        try:
            batch = buffer.next_batch(timeout=timeout)
        except TimeoutError:
            wait = self._wait
            if wait is None and run is not None:
                wait = self._wait = DrawWait(buffer, run, timeout)
            if wait is not None:
                wait.tick()
            raise
        self._wait = None
        return batch

    def start(self) -> EpochFeed:
        """Return the epoch's feed, and note its buffer for the draws to come.

        Raises:
            ClosedError: another iterator has taken its place.
        """
        with self._changing:
            if self._superseded or self._run is None:
                raise self.why_ended()
            if self._first is not None:
                run = self._run = self._first(self._run)
                self._buffer = run.buffer
                self.number = run.number
                self._first = None
                run.buffer = None  # it is this iterator's alone to keep
            return self._run

    def ready(self) -> bool:
        """Return True if the next draw would return, or raise, without waiting."""
        buffer = self._buffer
        if buffer is None or self._held is not None:
            return True
        return buffer.ready()

    def position(self) -> State:
        """Return the buffer's position after a draw."""
        assert self._buffer is not None
        assert self._run is not None
        return with_upstream(engine_of(self._buffer).position, self._run.snapshots)

    def _end(self) -> None:
        with self._changing:
            self._run = self._buffer = None
            if self._finished is not None:
                self._finished()
                self._finished = None

    def supersede(self) -> None:
        """End this epoch for good; wait until upstream's current call returns."""
        run = self._run
        self.give_way()
        if run is not None:
            run.end()

    def loader_closes(self) -> None:
        """Note that draws end because of `close()`, not because of another epoch."""
        self._is_closed = True

    def why_ended(self) -> ClosedError:
        """Return the error for a draw after the end that `supersede` has brought."""
        return closed_error() if self._is_closed else superseded_error()

    def give_way(self) -> None:
        """End this epoch for good, for another iterator over what was begun."""
        self._superseded = True
        self._run = self._buffer = None


def weakly(
    method: Callable[..., _Result], otherwise: Callable[..., _Result]
) -> Callable[..., _Result]:
    """Return a call of a bound method that does not keep its object alive.

    Args:
        method: bound to the object.
        otherwise: called in its place once the object is gone.
    """
    weak = weakref.WeakMethod(method)

    def call(*args: Any) -> _Result:
        alive = weak()
        return (otherwise if alive is None else alive)(*args)

    return call


def superseded_error() -> ClosedError:
    """Return the error for an iterator that another one has taken the place of."""
    return ClosedError(
        "another epoch of this loader was begun; a loader has one iterator at a time. "
        "Make a loader of its own for each loop that runs at the same time, such as "
        "training and validation, around the same data."
    )


def _explain(error: UpstreamError) -> UpstreamError:
    """Return what a loader has found itself in place of an error around it.

    An item that did not fit is a `SpecError`, too.
    """
    cause = error.__cause__
    is_found = isinstance(cause, ItemError | UpstreamStateError)
    if is_found or type(cause) is UpstreamError:
        assert isinstance(cause, UpstreamError)
        again = type(cause)(*cause.args)
        again.__cause__ = cause.__cause__  # also None: no context is shown then
        return again
    return error
