"""Beginning one epoch: upstream, the buffer, and the thread that feeds it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from echobuf import state
from echobuf._engine.termination import upstream_failed
from echobuf.buffer import EchoBuffer, engine_of
from echobuf.errors import EchobufError, OptionError, StateError, UpstreamError
from echobuf.loader import source
from echobuf.loader.adapter import Adapter
from echobuf.loader.feeder import Feeder, stop_feeding
from echobuf.loader.plan import Plan
from echobuf.loader.ragged_batches import BatchReader
from echobuf.loader.ragged_items import Ahead
from echobuf.loader.readers import FeedRequest, Reader
from echobuf.loader.upstream import EpochSetter, Start, Upstream
from echobuf.loader.upstream_states import Positions, Snapshots
from echobuf.resources import enough
from echobuf.state import UpstreamState


class EpochFeed:
    """An epoch whose upstream was begun; dropping it stops that upstream.

    The loader holds it until the first batch is drawn, so that an iterator that was
    made and dropped again (some trainers try whether a loader can be iterated) has
    not used up an epoch.

    Args:
        number: of the epoch.
        resume: the state that it goes on from.
        buffer: None if upstream yielded nothing, or failed.
        feeder: the thread that feeds it.
        cause: what upstream raised, if it could not be begun.
        snapshots: completes positions in it.
        pool: the worker processes that feed it, which end when nothing refers to it.
        describe: returns what it waits for, when no example comes.

    Attributes:
        given_up: whether `set_epoch` has asked for another epoch in its place.
    """

    def __init__(
        self,
        number: int,
        resume: state.State | None,
        buffer: EchoBuffer | None = None,
        feeder: Feeder | None = None,
        cause: BaseException | None = None,
        snapshots: Positions | None = None,
        pool: Any = None,
        describe: Callable[[], str] | None = None,
    ) -> None:
        self.number = number
        self.resume = resume
        self._cause = cause
        self.given_up = False
        self.buffer = buffer
        self.feeder = feeder
        self.snapshots = snapshots
        self._pool = pool
        self._describe = describe

    def to_skip(self) -> int:
        """Return how many fresh examples before a loaded state are still to come."""
        return 0 if self.feeder is None else self.feeder.to_skip()

    def describe(self) -> str:
        """Return what it waits for, when no example comes."""
        return "" if self._describe is None else self._describe()

    @property
    def error(self) -> UpstreamError | None:
        """The error that a draw raises, if upstream could not be begun."""
        if self._cause is None:
            return None
        if type(self._cause) is UpstreamError:  # that says it
            return UpstreamError(*self._cause.args)
        return upstream_failed(self._cause)

    def end(self) -> None:
        """End its upstream; wait until the current call of that returns."""
        if self.feeder is not None:
            self.feeder.end()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # As the interpreter goes away its threads have ended, and modules are gone.
        if getattr(self, "feeder", None) is not None and not is_finalizing():
            self.feeder.stop()  # type: ignore[union-attr]


@dataclass(frozen=True)
class EpochAhead:
    """The next epoch of a loader, begun early; dropping it stops its upstream.

    Attributes:
        number: of the epoch.
        start: what came of beginning upstream.
        run: what feeds the buffer already; None if nothing does.
    """

    number: int
    start: Start
    run: EpochFeed | None

    def cancel(self) -> None:
        """End its upstream; wait until the current call of that returns."""
        if self.run is not None:
            self.run.end()


class EpochStarter:
    """Begins the epochs of a loader, one after the other in the same memory.

    Args:
        upstream: that is iterated.
        setter: passes the number of an epoch that begins ahead on to upstream.
        plan: of the buffer.
        adapter: to the framework of the loader.
        reader: makes examples of what upstream yields.

    Attributes:
        buffer: from the first item on.
        snapshots: completes positions in the epoch begun last.
        ahead: the next epoch, while it is begun early and not asked for; else None.
    """

    def __init__(
        self,
        upstream: Upstream,
        setter: EpochSetter,
        plan: Plan,
        adapter: Adapter,
        reader: Reader,
    ) -> None:
        self._upstream = upstream
        self._epoch_setter = setter
        self._plan = plan
        self._adapter = adapter
        self._reader = reader
        self._feeders: list[Feeder] = []  # of the epoch begun last, and cut off
        self.ahead: EpochAhead | None = None
        self.buffer: EchoBuffer | None = None
        self.snapshots: Positions | None = None
        self._batch_reader: BatchReader | None = None  # from the first item on

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
        ahead = self._wanted_ahead(number, resume)
        upstream = None if resume is None else resume.get("upstream")
        start = self._start(upstream) if ahead is None else ahead.start
        if start.error is not None:
            return EpochFeed(number, resume, cause=start.error)
        if start.items is None:
            self._open_empty(number, resume)
            return EpochFeed(number, resume)
        if ahead is not None and ahead.run is not None:
            buffer, run = self.buffer, ahead.run
            assert buffer is not None
            try:
                engine_of(buffer).go_ahead(number)
                self._note(run)
            except BaseException:
                self._stop_feeding(buffer)
                raise
            return run
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
        self._feeders, self.snapshots = [run.feeder], run.snapshots

    def _stop_feeding(self, buffer: EchoBuffer) -> None:
        """Stop the threads that feed the buffer, as Ctrl-C has come in between.

        Not a context manager: an interrupt at the end of its block would stop what
        was begun well.
        """
        self._feeders = [*self._feeders, *stop_feeding(engine_of(buffer))]

    def count(self) -> int | None:
        """Return the number of fresh examples in an epoch, where it is known.

        The end of an upstream with a state is known with that state.
        """
        return None if self._upstream.stateful else self._plan.count()

    @property
    def reader(self) -> Reader:
        """The reader of upstream."""
        return self._reader

    def stop(self) -> None:
        """Tell the threads of the epoch begun last to end; do not wait for them."""
        for feeder in self._feeders:
            feeder.stop()

    def join(self) -> None:
        """Wait until the threads of epochs that are over have ended."""
        for feeder in self._feeders:
            feeder.join()

    def close(self) -> None:
        """End what there is of upstream, and release the memory.

        What Ctrl-C cuts short can be called again, and goes on.
        """
        try:
            self.cancel_ahead()
            self.join()
            self._reader.close()
        except Exception:
            self._release()
            raise
        self._release()

    def _release(self) -> None:
        if self.buffer is not None:
            engine_of(self.buffer).release()

    # ---- the next epoch's upstream, while this one is served out

    def begin_ahead(self, number: int) -> bool:
        """Begin upstream of that epoch once it is time; True when that is done."""
        buffer = self.buffer
        if (
            self.ahead is not None
            or buffer is None
            or not engine_of(buffer).is_draining()
        ):
            return self.ahead is not None
        if not self._reader.is_ready():
            return False
        self._epoch_setter.set_next(number)
        try:
            start = self._start(None)
        except UpstreamError:
            return True  # the next `iter` says so
        run = None
        try:
            if start.items is not None and engine_of(buffer).open_ahead(number):
                run = self._feed(buffer, start, number, None)
            self.ahead = EpochAhead(number, start, run)
        except BaseException:
            self.ahead = None
            self._stop_feeding(buffer)
            raise
        return True

    def cancel_ahead(self) -> None:
        """End the upstream of an epoch that was begun ahead."""
        ahead, self.ahead = self.ahead, None
        if ahead is not None:
            if ahead.run is not None and ahead.run.feeder is not None:
                # A thread that Ctrl-C interrupts here waits for it at its next call.
                self._feeders = [*self._feeders, ahead.run.feeder]
            ahead.cancel()

    def _wanted_ahead(
        self, number: int, resume: state.State | None
    ) -> EpochAhead | None:
        """Return the epoch begun ahead, if it is this one; end it if it is another."""
        ahead = self.ahead
        if ahead is not None and (ahead.number != number or resume is not None):
            self.cancel_ahead()
        ahead, self.ahead = self.ahead, None
        return ahead

    # ---- the parts of it

    def _start(self, state: UpstreamState | None) -> Start:
        self._upstream.check_fresh()
        self._epoch_setter.note_epochs()
        start = self._upstream.begin(state, self._reader.describe_wait)
        looks_ahead = self._plan.ragged is not None and not self._plan.batched
        if looks_ahead and self.buffer is None and start.items is not None:
            start = replace(start, items=Ahead(start.items))
        return self._reader.check(start)

    def _open(
        self, start: Start, number: int, resume: state.State | None
    ) -> EchoBuffer:
        if self.buffer is None:
            first, more = self._reader.first_item(start), iter(())
            self._batch_reader = self._plan.batch_reader(first)
            if self._batch_reader is not None:
                first = self._batch_reader.wrap(first)
            if isinstance(start.items, Ahead):
                more = self._reader.look(start.items, self._plan.most_ahead())
            example = self._adapter.read_first(first)
            try:
                with self._enough():
                    self.buffer = self._make_buffer(example, more)
            except OptionError:  # of too few examples, perhaps
                if isinstance(start.items, Ahead):
                    start.items.raise_error()
                raise
        self.buffer.reset(number)
        if resume is not None:
            engine = engine_of(self.buffer)
            state.check_arguments(resume["arguments"], engine.arguments)
            engine.restore(resume)
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

    def _make_buffer(self, first: Any, more: Iterator[Any]) -> EchoBuffer:
        if not self._adapter.takes_none:
            source.refuse_none(first, "batch" if self._plan.batched else "example")
        buffer = self._plan.make_buffer(first, more)
        try:
            self._adapter.fit(buffer)
            engine_of(buffer).core.carry(self._adapter.carried())
        except EchobufError:
            engine_of(buffer).release()  # though the error may keep hold of it
            raise
        return buffer

    def _enough(self) -> AbstractContextManager[None]:
        """Give a clear error where descriptors, threads or processes run out."""
        if self._reader.is_pool:
            return enough("a loader with workers", "make `num_workers` smaller")
        return enough("a loader", "end the loops of other loaders")

    def _feed(
        self, buffer: EchoBuffer, start: Start, number: int, resume: state.State | None
    ) -> EpochFeed:
        base = needed = 0
        if resume is not None:
            base = resume.get("base", 0)
            needed = base + resume["fresh_offset"]
        engine, snapshots = engine_of(buffer), None
        if self._upstream.stateful is not None:
            snapshots = Snapshots(
                self._upstream.stateful,
                engine.options,
                number,
                base,
                start.offset,
                start.state,
                ahead=start.items if isinstance(start.items, Ahead) else None,
            )
        batched = self._plan.batched and not engine.whole_batches
        with self._enough():
            feeder = self._reader.feed(
                engine,
                FeedRequest(
                    start,
                    needed,
                    batched,
                    snapshots,
                    self._batch_reader,
                    number,
                    resume,
                    self._epoch_setter.number,
                ),
            )
        return EpochFeed(
            number,
            resume,
            buffer,
            feeder,
            snapshots=feeder.positions,
            pool=self._reader.pool,
            describe=self._reader.describe_wait,
        )
