"""Beginning one epoch: upstream, the buffer, and the thread that feeds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from echobuf import state
from echobuf._engine.carry import Carrier
from echobuf.errors import (
    EchobufError,
    OptionError,
    StateError,
    UpstreamError,
    warn_caller,
)
from echobuf.loader.epoch import EpochFeed
from echobuf.loader.feeder import Feeder, stop_feeding
from echobuf.loader.items import Adapter, refuse_none, refuse_on_device
from echobuf.loader.look_ahead import LookAhead
from echobuf.loader.plan import Plan
from echobuf.loader.ragged import BatchDecoder
from echobuf.loader.readers import FeedRequest, Reader
from echobuf.loader.states import Positions, Snapshots
from echobuf.loader.thread import UpstreamThread
from echobuf.loader.upstream import (
    Upstream,
    UpstreamStart,
    begin_upstream,
)
from echobuf.loader_buffer import LoaderBuffer
from echobuf.resources import enough
from echobuf.state import UpstreamState


class EpochStarter:
    """Begins the epochs of a loader, one after the other in the same memory.

    Args:
        upstream: that is iterated.
        plan: of the buffer.
        adapter: to the framework of the loader.
        reader: makes examples of what upstream yields.

    Attributes:
        reader: the same.
        buffer: from the first item on.
        positions: completes positions in the epoch begun last.
        early: the next epoch and the begin of its upstream, while it is begun early
            and not asked for; else None. The epoch may have no feeder yet.
    """

    def __init__(
        self,
        upstream: Upstream,
        plan: Plan,
        adapter: Adapter,
        reader: Reader,
    ) -> None:
        self._upstream = upstream
        self._plan = plan
        self._adapter = adapter
        self.reader = reader
        self._thread = UpstreamThread(plan.options.device)
        self._feeders: list[Feeder] = []  # of the epoch begun last, and cut off
        self.early: tuple[EpochFeed, UpstreamStart] | None = None
        self.buffer: LoaderBuffer | None = None
        self.positions = Positions()
        # From the first item on, where it asks for them:
        self._batch_decoder: BatchDecoder | None = None
        self.carrier: Carrier | None = None
        self._is_warned = False

    def begin(self, number: int, resume: state.State | None) -> EpochFeed:
        """Begin an epoch; where upstream raises, the run says what.

        Args:
            number: of the epoch.
            resume: the state that it goes on from.

        Raises:
            UpstreamError: upstream gives one epoch only and has been used.
            SpecError: the first item has leaves that cannot be stored.
            CapacityError: the window does not fit the memory, or descriptors, threads
                or processes have run out.
            StateError: `resume` is not of this upstream.
        """
        early = self._wanted_early(number, resume)
        if early is not None and early[0].feeder is not None:
            buffer, run = self.buffer, early[0]
            assert buffer is not None
            try:
                buffer.go_ahead(number)
                self._note(run)
            except BaseException:
                self._stop_feeding(buffer)
                raise
            return run
        upstream = None if resume is None else resume.get("upstream")
        start = self._start(upstream) if early is None else early[1]
        is_fed = False
        try:
            run = self._begin(start, number, resume)
            is_fed = run.feeder is not None
        finally:
            if not is_fed:
                self._thread.drop(start.drop)
        return run

    def _begin(
        self, start: UpstreamStart, number: int, resume: state.State | None
    ) -> EpochFeed:
        """Begin an epoch whose upstream was begun."""
        if start.error is not None:
            return EpochFeed(number, resume, cause=start.error)
        if start.items is None:
            self._warn_empty(number)
            self._open_empty(number, resume)
            return EpochFeed(number, resume)
        buffer = self._open(start, number, resume)
        try:
            run = self._feed(buffer, start, number, resume)
            self._note(run)
        except BaseException:
            self._stop_feeding(buffer)
            raise
        return run

    def _note(self, run: EpochFeed) -> None:
        """Keep what feeds the epoch that has begun."""
        assert run.feeder is not None
        self._feeders, self.positions = [run.feeder], run.positions

    def _stop_feeding(self, buffer: LoaderBuffer) -> None:
        """Stop the threads that feed the buffer, as Ctrl-C has come in between.

        Not a context manager: an interrupt at the end of its block would stop what
        was begun well.
        """
        self._feeders = [*self._feeders, *stop_feeding(buffer)]

    def count(self) -> int | None:
        """Return the number of fresh examples in an epoch, where it is known.

        The end of an upstream with a state is known with that state.
        """
        return None if self._upstream.stateful else self._plan.count()

    def stop(self) -> None:
        """Tell the threads of the epoch begun last to end; do not wait for them."""
        for feeder in self._feeders:
            feeder.stop()

    def leave(self, seconds: float) -> None:
        """End upstream's thread, and wait for it no longer than that from now on."""
        self.stop()
        if self.early is not None and self.early[0].feeder is not None:
            self.early[0].feeder.stop()
        self._thread.leave(seconds)

    def join(self) -> None:
        """Wait until the threads of epochs that are over have ended."""
        for feeder in self._feeders:
            feeder.join()

    def close(self) -> None:
        """End what there is of upstream, and release the memory.

        What Ctrl-C cuts short can be called again, and goes on.
        """
        try:
            self.cancel_early()
            self.join()
            self.reader.close()
            self._thread.close()
        except Exception:
            self._release()
            raise
        self._release()

    def _release(self) -> None:
        if self.buffer is not None:
            self.buffer.release()

    # ---- the next epoch's upstream, while this one is served out

    def begin_early(self, number: int) -> bool:
        """Begin upstream of that epoch once it is time; True when that is done."""
        buffer = self.buffer
        if self.early is not None or buffer is None or not buffer.is_draining():
            return self.early is not None
        if not self.reader.is_ready():
            return False
        self._upstream.epochs.set_next(number)
        try:
            start = self._start(None)
        except UpstreamError:
            return True  # the next `iter` says so
        try:
            run = EpochFeed(number, None)
            if start.items is not None and buffer.open_ahead(number):
                run = self._feed(buffer, start, number, None)
            self.early = run, start
        except BaseException:
            self.early = None
            self._thread.drop(start.drop)
            self._stop_feeding(buffer)
            raise
        return True

    def cancel_early(self) -> None:
        """End the upstream of an epoch that was begun early."""
        early, self.early = self.early, None
        if early is not None:
            run, start = early
            if run.feeder is not None:
                # A thread that Ctrl-C interrupts here waits for it at its next call.
                self._feeders = [*self._feeders, run.feeder]
            run.end()
            self._thread.drop(start.drop)

    def _wanted_early(
        self, number: int, resume: state.State | None
    ) -> tuple[EpochFeed, UpstreamStart] | None:
        """Return the epoch begun early, if it is this one; end it if it is another."""
        early = self.early
        if early is not None and (early[0].number != number or resume is not None):
            self.cancel_early()
        early, self.early = self.early, None
        return early

    # ---- the parts of it

    def _start(self, state: UpstreamState | None) -> UpstreamStart:
        self._upstream.epochs.note_epochs()
        looks_ahead = self._plan.ragged is not None and not self._plan.batched
        args = (
            self._upstream,
            self.reader,
            state,
            looks_ahead and self.buffer is None,
        )
        if self.reader.is_attached:  # its wait for a server ends with Ctrl-C
            return begin_upstream(*args)
        with self._enough():
            return self._thread.begin(begin_upstream, *args)

    def _open(
        self, start: UpstreamStart, number: int, resume: state.State | None
    ) -> LoaderBuffer:
        if self.buffer is None:
            first, more = self.reader.first_item(start), iter(())
            self._adapter.learn(first)
            self._batch_decoder = self._plan.batch_decoder(first)
            if self._batch_decoder is not None:
                first = self._batch_decoder.wrap(first)
            self.carrier = self._plan.carrier(first)
            if self.carrier is not None:
                first = self.carrier.strip(first)
            what = "batch" if self._plan.batched else "example"
            if self._plan.options.device == "cpu" or self.reader.is_pool:
                refuse_on_device(first, what)
            if isinstance(start.items, LookAhead):
                more = self._thread.iterate(
                    self.reader.look(start.items, self._plan.most_ahead())
                )
                if self.carrier is not None:
                    more = map(self.carrier.strip, more)
            example = self._adapter.read_first(first)
            before = None
            if resume is not None and start.offset:
                before = resume["arguments"].get("batch_size")
            try:
                with self._enough():
                    self.buffer = self._make_buffer(example, more, before)
                    self.buffer.look_at(self.reader.first_item(start), what)
            except OptionError:  # of too few examples, perhaps
                if isinstance(start.items, LookAhead):
                    start.items.raise_error()
                raise
        self.buffer.reset(number)
        if resume is not None:
            state.check_arguments(resume["arguments"], self.buffer.arguments)
            self.buffer.restore(resume)
        return self.buffer

    def _open_empty(self, number: int, resume: state.State | None) -> None:
        if resume is not None and resume["position"] is not None:
            raise StateError(
                "upstream yields nothing, but `state` was taken in the middle of an "
                "epoch; give the upstream that it was taken with."
            )
        if self.buffer is not None:
            self.buffer.reset(number)
            self.buffer.close()

    def _warn_empty(self, number: int) -> None:
        if self.buffer is not None and not self._is_warned:
            self._is_warned = True
            warn_caller(
                f"upstream yields nothing in epoch {number}, but has yielded examples "
                "in an earlier one: what it reads (a generator, an open file) may be "
                "used up. Let its `__iter__` begin anew each time."
            )

    def _make_buffer(
        self, first: Any, more: Iterator[Any], before: int | None
    ) -> LoaderBuffer:
        if not self._adapter.takes_none and self.carrier is None:
            refuse_none(first, "batch" if self._plan.batched else "example")
        carries = self.carrier is not None
        buffer = self._plan.make_buffer(first, more, before, carries=carries)
        try:
            self._adapter.fit(buffer)
            buffer.core.take_foreign(self._adapter.foreign())
        except EchobufError:
            buffer.release()  # though the error may keep hold of it
            raise
        return buffer

    def _enough(self) -> AbstractContextManager[None]:
        """Give a clear error where descriptors, threads or processes run out."""
        if self.reader.is_pool:
            return enough("a loader with workers", "make `num_workers` smaller")
        return enough("a loader", "end the loops of other loaders")

    def _feed(
        self,
        buffer: LoaderBuffer,
        start: UpstreamStart,
        number: int,
        resume: state.State | None,
    ) -> EpochFeed:
        base = needed = 0
        if resume is not None:
            base = resume.get("base", 0)
            needed = base + resume["fresh_offset"]
        snapshots = None
        if self._upstream.stateful is not None:
            snapshots = Snapshots(
                self._upstream.stateful,
                buffer.options,
                number,
                base,
                start.offset,
                start.state,
                ahead=start.items if isinstance(start.items, LookAhead) else None,
            )
        with self._enough():
            feeder = self.reader.feed(
                buffer,
                FeedRequest(
                    self._thread,
                    start,
                    needed,
                    self._plan.stacked,
                    snapshots,
                    self._batch_decoder,
                    number,
                    resume,
                    self._upstream.epochs.number,
                    self.carrier,
                ),
            )
        return EpochFeed(number, resume, buffer, feeder, reader=self.reader)
