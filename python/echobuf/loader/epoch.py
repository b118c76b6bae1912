"""One epoch: what feeds its buffer, and the iterator that a loop draws from."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from echobuf import _core
from echobuf._engine.carry import Carried
from echobuf._engine.termination import upstream_failed
from echobuf.arguments import check_timeout
from echobuf.errors import (
    ClosedError,
    ItemError,
    UpstreamError,
    UpstreamStateError,
)
from echobuf.loader.draw_wait import DrawWait
from echobuf.loader.feeder import Feeder
from echobuf.loader.readers import Reader
from echobuf.loader.states import Positions
from echobuf.loader.thread import closed_error
from echobuf.loader_buffer import LoaderBuffer
from echobuf.progress import slice_s
from echobuf.resources import Uncopied
from echobuf.state import State

_Result = TypeVar("_Result")


@dataclass(eq=False)
class EpochFeed:
    """An epoch whose upstream was begun; dropping it stops that upstream.

    The loader holds it until the first batch is drawn, so that an iterator that was
    made and dropped again (some trainers try whether a loader can be iterated) has
    not used up an epoch.

    Attributes:
        number: of the epoch.
        resume: the state that it goes on from.
        buffer: None if upstream yielded nothing, or failed.
        feeder: feeds the buffer; None likewise.
        cause: what upstream raised, if it could not be begun.
        reader: makes its examples; its worker processes end when nothing refers to it.
        carried: the objects of its examples; None where none are carried.
        given_up: True once `set_epoch` has asked for another epoch in its place.
    """

    number: int
    resume: State | None
    buffer: LoaderBuffer | None = None
    feeder: Feeder | None = None
    cause: BaseException | None = None
    reader: Reader | None = None
    given_up: bool = False
    carried: Carried | None = None

    def __post_init__(self) -> None:
        if self.feeder is not None:
            self.carried, self.feeder.carried = self.feeder.carried, None

    @property
    def positions(self) -> Positions:
        """Return the object that completes positions in it."""
        return Positions() if self.feeder is None else self.feeder.positions

    def to_skip(self) -> int:
        """Return how many fresh examples before a loaded state are still to come."""
        return 0 if self.feeder is None else self.feeder.to_skip()

    def describe_wait(self) -> str:
        """Return what it waits for, when no example comes."""
        return "" if self.reader is None else self.reader.describe_wait()

    @property
    def error(self) -> UpstreamError | None:
        """The error that a draw raises, if upstream could not be begun."""
        if self.cause is None:
            return None
        kind = type(self.cause)
        if kind in (UpstreamError, ItemError):  # which says it
            error: UpstreamError = kind(*self.cause.args)
            error.__cause__ = self.cause.__cause__
            return error
        return upstream_failed(self.cause)

    def end(self) -> None:
        """End its upstream; wait until the current call of that returns."""
        if self.feeder is not None:
            self.feeder.end()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # As the interpreter goes away its threads have ended, and modules are gone.
        if self.feeder is not None and not is_finalizing():
            self.feeder.stop()


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
        self._buffer: LoaderBuffer | None = None  # from the first draw on
        self._first: Callable[[EpochFeed], EpochFeed] | None = first
        self._finished: Callable[[], None] | None = finished
        self._overlap = overlap
        self._carried: Carried | None = None  # the objects of its examples
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

    def _opened(self) -> LoaderBuffer:
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

    def _draw(self, buffer: LoaderBuffer, timeout: float | None) -> Any:
        try:
            batch = self._held
            if batch is None and timeout is None:
                batch = self._next_within(buffer, slice_s())
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
            # Not from a variable: the error would keep this frame, and that the error.
            raise _explain(error)  # noqa: B904 - it has its cause
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

    def _draw_late(self, buffer: LoaderBuffer, timeout: float | None) -> Any:
        """Return the next batch; report the wait for it, if that lasts.

        Raises:
            TimeoutError: the time ran out; the next call goes on with the wait.
        """
        run = self._run
        if timeout is None:
            # Of this call alone: other threads may draw from this iterator, too.
            wait = None if run is None else DrawWait(buffer, run, slice_s() or 0.0)
            while (batch := self._next_within(buffer, slice_s())) is None:
                if wait is not None:
                    wait.tick()
            return batch
        try:
            batch = self._next_within(buffer, check_timeout(timeout))
            if batch is None:
                buffer.termination.end_next(_core.TIMEOUT)
        except TimeoutError:
            wait = self._wait
            if wait is None and run is not None:
                wait = self._wait = DrawWait(buffer, run, timeout)
            if wait is not None:
                wait.tick()
            raise
        self._wait = None
        return batch

    def _next_within(self, buffer: LoaderBuffer, seconds: float | None) -> Any:
        """Return the next batch, with what it carries; None if none comes in time."""
        carried = self._carried
        if carried is None:
            return buffer.next_within(seconds)
        draw = carried.begin_draw()
        try:
            taken = buffer.take(seconds)
            if taken is None:
                return None
            arrays, records = taken
            try:
                columns = carried.columns(records)
            except IndexError:  # another thread has ended the epoch
                raise self.why_ended() from None
            return buffer.join(arrays, columns)
        finally:
            carried.end_draw(draw, buffer.oldest_needed())

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
                self._carried, run.carried = run.carried, None
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
        return self._run.positions.at(self._buffer.position)

    def _end(self) -> None:
        with self._changing:
            self._run = self._buffer = self._carried = None
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
        self._run = self._buffer = self._carried = None


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
