"""One epoch: the iterator that a training loop draws batches from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from echobuf.buffer import EchoBuffer
from echobuf.errors import ClosedError, UpstreamError
from echobuf.loader.feeder import BadItemError, Feeder
from echobuf.state import State


class Epoch(Iterator[Any]):
    """Draws the batches of one epoch, and stops upstream when it is dropped.

    Args:
        buffer: None if upstream yielded nothing.
        feeder: the thread that feeds it.
        write: brings a batch into the form that the caller gets.
        finished: called once, when everything has been served.
        error: raised at the first draw, in place of it.
        overlap: called after each draw, to begin the next epoch's upstream, until it
            returns True.
    """

    def __init__(
        self,
        buffer: EchoBuffer | None,
        feeder: Feeder | None,
        write: Callable[[Any], Any] | None,
        finished: Callable[[], None],
        error: BaseException | None = None,
        overlap: Callable[[], bool] | None = None,
    ) -> None:
        self._buffer = buffer
        self._feeder = feeder
        self._write = write
        self._finished: Callable[[], None] | None = finished
        self._error: UpstreamError | None = None
        if error is not None:
            self._error = UpstreamError(f"upstream failed: {error!r}")
            self._error.__cause__ = error
        self._overlap = overlap
        self._held: Any = None  # a batch drawn before Ctrl-C came
        self._superseded = False

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        return self.draw(None)

    def draw(self, timeout: float | None) -> Any:
        """The next batch.

        Args:
            timeout: seconds to wait for upstream at most.

        Raises:
            TimeoutError: the time ran out; nothing is lost.
            StopIteration, UpstreamError, ClosedError: as `next`.
        """
        if self._superseded:
            raise superseded_error()
        if self._error is not None:
            raise self._error
        if self._buffer is None:
            self._end()
            raise StopIteration
        batch = self._draw(self._buffer, timeout)
        return batch if self._write is None else self._write(batch)

    def _draw(self, buffer: EchoBuffer, timeout: float | None) -> Any:
        try:
            batch = self._held
            if batch is None:
                batch = buffer.next_batch(timeout=timeout)
        except StopIteration:
            self._end()
            raise
        except UpstreamError as error:
            raise _explain(error) from error.__cause__
        if self._overlap is not None:
            self._held = batch
            if self._overlap():
                self._overlap = None
            self._held = None
        return batch

    def ready(self) -> bool:
        """Whether the next draw would return, or raise, without waiting."""
        if self._buffer is None or self._held is not None or self._error is not None:
            return True
        return self._buffer.ready()

    def position(self) -> State:
        """Where the buffer is, after a draw."""
        assert self._buffer is not None
        return self._buffer._position()

    @property
    def error(self) -> UpstreamError | None:
        """Why the first draw raises, if upstream could not be begun."""
        return self._error

    def _end(self) -> None:
        self._buffer = None
        if self._finished is not None:
            self._finished()
            self._finished = None

    def supersede(self) -> None:
        """Ends this epoch for good; waits until upstream's current call returns."""
        self._superseded = True
        self.stop()
        if self._feeder is not None:
            self._feeder.join()

    def stop(self) -> None:
        """Tells upstream's thread to end, and does not wait for it."""
        if self._feeder is not None:
            self._feeder.stop()

    def __del__(self) -> None:
        if getattr(self, "_feeder", None) is not None:
            self.stop()


def superseded_error() -> ClosedError:
    """The error for an iterator that another one has taken the place of."""
    return ClosedError(
        "another epoch of this loader was begun; a loader has one iterator at a time."
    )


def _explain(error: UpstreamError) -> UpstreamError:
    """An item that did not fit is a `SpecError` too."""
    cause = error.__cause__
    return BadItemError(*cause.args) if isinstance(cause, BadItemError) else error
