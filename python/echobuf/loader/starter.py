"""Beginning an epoch: upstream's iterator, the buffer, and the thread between them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from echobuf import state
from echobuf.buffer import EchoBuffer, engine_of
from echobuf.errors import EchobufError, StateError, UpstreamError
from echobuf.limits import enough
from echobuf.loader import source
from echobuf.loader.adapter import Adapter
from echobuf.loader.ahead import Ahead
from echobuf.loader.feeder import Feeder, stop_feeding
from echobuf.loader.plan import Plan
from echobuf.loader.run import Run
from echobuf.loader.snapshots import Snapshots
from echobuf.loader.told import Told
from echobuf.loader.upstream import Start, Upstream
from echobuf.upstream_state import UpstreamState

if TYPE_CHECKING:
    from echobuf.serve.supply import Supply
    from echobuf.workers.workforce import Workforce


class Starter:
    """Begins the epochs of a loader, one after the other in the same memory.

    Args:
        upstream: that is iterated.
        told: what in it is told the number of an epoch that begins ahead.
        plan: of the buffer.
        adapter: to the framework of the loader.
        workforce: who makes examples in place of this process: worker processes, and
            upstream yields indices; or a server, and it yields epochs of it.

    Attributes:
        buffer: from the first item on.
        snapshots: of upstream in the epoch begun last, if it has a state.
    """

    def __init__(
        self,
        upstream: Upstream,
        told: Told,
        plan: Plan,
        adapter: Adapter,
        workforce: Workforce | Supply | None = None,
    ) -> None:
        self._upstream = upstream
        self._told = told
        self._plan = plan
        self._adapter = adapter
        self._workforce = workforce
        self._feeders: list[Feeder] = []  # of the epoch begun last, and cut off
        self._ahead: Ahead | None = None
        self.buffer: EchoBuffer | None = None
        self.snapshots: Snapshots | None = None

    def begin(self, number: int, resume: state.State | None) -> Run:
        """Begins an epoch; where upstream raises, the run says what.

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
            return Run(number, resume, cause=start.error)
        if start.items is None:
            self._open_empty(number, resume)
            return Run(number, resume)
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
        buffer = self._open(start.first, number, resume)
        try:
            run = self._feed(buffer, start, number, resume)
            self._note(run)
        except BaseException:
            self._stop_feeding(buffer)
            raise
        return run

    def _note(self, run: Run) -> None:
        """Keep what feeds the epoch that has begun."""
        assert run.feeder is not None
        self._feeders, self.snapshots = [run.feeder], run.snapshots

    def _stop_feeding(self, buffer: EchoBuffer) -> None:
        """Stop the threads that feed the buffer, as Ctrl-C has come in between.

        Not a context manager: an interrupt at the end of its block would stop what
        was begun well.
        """
        self._feeders = [*self._feeders, *stop_feeding(engine_of(buffer))]

    def stop(self) -> None:
        """Tell the threads of the epoch begun last to end; do not wait for them."""
        for feeder in self._feeders:
            feeder.stop()

    def join(self) -> None:
        """Waits until the threads of epochs that are over have ended."""
        for feeder in self._feeders:
            feeder.join()

    def close(self) -> None:
        """Ends what there is of upstream, and releases the memory.

        What Ctrl-C cuts short can be called again, and goes on.
        """
        try:
            self.cancel_ahead()
            self.join()
            if self._workforce is not None:
                self._workforce.close()
        except Exception:
            self._release()
            raise
        self._release()

    def _release(self) -> None:
        if self.buffer is not None:
            engine_of(self.buffer).release()

    # ---- the next epoch's upstream, while this one is served out

    def begin_ahead(self, number: int) -> bool:
        """Begins upstream of that epoch once it is time; True when that is done."""
        buffer = self.buffer
        if (
            self._ahead is not None
            or buffer is None
            or not engine_of(buffer).is_draining()
        ):
            return self._ahead is not None
        if self._workforce is not None and not self._workforce.is_ready():
            return False
        self._told.tell_next(number)
        try:
            start = self._start(None)
        except UpstreamError:
            return True  # the next `iter` says so
        run = None
        try:
            if start.items is not None and engine_of(buffer).open_ahead(number):
                run = self._feed(buffer, start, number, None)
            self._ahead = Ahead(number, start, run)
        except BaseException:
            self._ahead = None
            self._stop_feeding(buffer)
            raise
        return True

    def cancel_ahead(self) -> None:
        """Ends the upstream of an epoch that was begun ahead."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            if ahead.run is not None and ahead.run.feeder is not None:
                # Who is interrupted while it ends waits for it at the next call.
                self._feeders = [*self._feeders, ahead.run.feeder]
            ahead.cancel()

    def _wanted_ahead(self, number: int, resume: state.State | None) -> Ahead | None:
        """What was begun ahead, if it is this epoch; ended if it is another."""
        ahead = self._ahead
        if ahead is not None and (ahead.number != number or resume is not None):
            self.cancel_ahead()
        ahead, self._ahead = self._ahead, None
        return ahead

    # ---- the parts of it

    def _start(self, state: UpstreamState | None) -> Start:
        self._upstream.check_fresh()
        self._told.note_beginning()
        start = self._upstream.begin(state)
        return start if self._workforce is None else self._workforce.check(start)

    def _open(self, first: Any, number: int, resume: state.State | None) -> EchoBuffer:
        if self.buffer is None:
            if self._workforce is not None:
                first = self._workforce.example
            example = self._adapter.read_first(first)
            with self._enough():
                self.buffer = self._make_buffer(example)
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

    def _make_buffer(self, first: Any) -> EchoBuffer:
        if not self._adapter.takes_none:
            source.refuse_none(first, "batch" if self._plan.batched else "example")
        buffer = self._plan.make_buffer(first)
        try:
            self._adapter.fit(buffer)
            engine_of(buffer).core.carry(self._adapter.carried())
        except EchobufError:
            engine_of(buffer).release()  # though the error may keep hold of it
            raise
        return buffer

    def _enough(self) -> AbstractContextManager[None]:
        """Give a clear error where descriptors, threads or processes run out."""
        if self._workforce is not None and self._workforce.is_pool:
            return enough("a loader with workers", "make `num_workers` smaller")
        return enough("a loader", "end the loops of other loaders")

    def _feed(
        self, buffer: EchoBuffer, start: Start, number: int, resume: state.State | None
    ) -> Run:
        base = needed = 0
        if resume is not None:
            base = resume.get("base", 0)
            needed = base + resume["fresh_offset"]
        snapshots = None
        if self._upstream.stateful is not None:
            snapshots = Snapshots(
                self._upstream.stateful,
                engine_of(buffer).options,
                number,
                base,
                start.offset,
                start.state,
            )
        assert start.items is not None
        if self._workforce is not None:
            with self._enough():
                given = self._workforce.feed(buffer, start, needed)
            return Run(number, resume, buffer, given, crew=self._workforce.crew)
        with self._enough():
            feeder = Feeder(
                engine_of(buffer),
                start.items,
                start.first,
                batched=self._plan.batched and not self._plan.options.ragged,
                read=self._adapter.reader(),
                skipped=needed - start.offset,
                snapshots=snapshots,
            )
        return Run(number, resume, buffer, feeder, snapshots=snapshots)
