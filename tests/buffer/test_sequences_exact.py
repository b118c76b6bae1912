"""Calls in any order, from several threads, come to what a slow model says.

One producer and a fixed factor: every batch, count and error is known beforehand. A
call that must wait stays in flight on its thread, and others go on meanwhile.
"""

import functools
import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import echobuf
from buffer_model import Model
from helpers import options, until
from lanes import Call, Lanes, wait_for_some, when
from records import Records

pytestmark = pytest.mark.contract

CONSUMERS = 2
TURNS = st.integers(0, 5)
RECORDS = st.one_of(
    st.builds(Records, st.sampled_from([0, 1, 37, 3000])),
    st.builds(Records, st.sampled_from([1, 2000]), st.sampled_from([1, 3, 4])),
)


@functools.cache
def lanes() -> Lanes:
    return Lanes(CONSUMERS + 2)


class Sequences(RuleBasedStateMachine):
    """A buffer, its model, and the calls that are in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes = lanes()
        self.producer: Call | None = None
        self.put_from = 0  # records before those of the put in flight
        self.consumers: list[Call] = []
        self.next_id = 0
        self.left = False  # the context was

    @initialize(kwargs=options(), records=RECORDS)
    def make(self, kwargs: dict[str, Any], records: Records) -> None:
        self.records = records
        self.make_buffer({**kwargs, **({"batch_size": 1} if records.rows else {})})

    def make_buffer(self, kwargs: dict[str, Any]) -> None:
        arguments = dict(kwargs)
        if self.records.rows:
            del arguments["batch_size"]
            arguments["unit"] = "batch"
        self.buffer = echobuf.EchoBuffer(self.records.spec(), **arguments)
        self.model = Model(kwargs)
        self.left = False

    # ---- waiting for what the model says

    def settle(self) -> None:
        """All calls that the model lets through come back; the others do not."""
        batches = self.model.settle(len(self.consumers))
        self.settle_put()
        ends = self.how_consumers_end()
        number = len(self.consumers) if ends is not None else len(batches)
        returned = wait_for_some(self.consumers, number)
        self.consumers = [call for call in self.consumers if call not in returned]
        got = [call.result() for call in returned if call.error() is None]
        assert sorted(got) == sorted(batches)
        for call in returned:
            if (error := call.error()) is not None:
                self.check_end(error, ends)

    def settle_put(self) -> None:
        if self.producer is None:
            return
        if len(self.model.offered) == self.model.accepted:
            self.producer.result()
            self.producer = None
        else:
            until(lambda: self.buffer.stats().fresh == self.model.accepted)
            assert not self.producer.done

    def how_consumers_end(self) -> type[BaseException] | None:
        if self.left:
            return echobuf.ClosedError
        if self.model.failed:
            return echobuf.UpstreamError
        if self.model.ended():
            return echobuf.StateError if self.model.short() else StopIteration
        return None

    def check_end(self, error: BaseException, end: type[BaseException] | None) -> None:
        assert type(error) is end
        if end is echobuf.UpstreamError:
            assert error.__cause__ is self.model.failed

    def cut_put(self) -> None:
        """After `close`, `fail`, `reset` or the exit, a put in flight ends."""
        if self.producer is None:
            return
        error = self.producer.error()
        assert type(error) is echobuf.ClosedError
        assert error.accepted == self.model.accepted - self.put_from
        self.producer = None

    # ---- upstream

    def fresh(self, number: int) -> list[int]:
        """Ids that were never put; those of one put share the rows of a batch."""
        first = (self.next_id + 63) // 64 * 64 if self.records.rows else self.next_id
        self.next_id = first + number
        return list(range(first, first + number))

    def start_put(self, turn: int, ids: list[int], *, single: bool = False) -> None:
        self.put_from = self.model.accepted
        self.model.offered += ids
        if single:
            example = self.records.one(ids[0])
            work = functools.partial(self.buffer.put, example)
        else:
            work = functools.partial(self.buffer.put_batch, self.records.stacked(ids))
        self.producer = self.lanes.start(turn, work)

    def may_put(self) -> bool:
        # More than a loaded state's upstream had is an error that may come late.
        return self.producer is None and self.model.total is None

    @rule(turn=TURNS, number=st.integers(0, 60))
    @when(lambda self: self.may_put() and not self.model.closed)
    def put_batch(self, turn: int, number: int) -> None:
        self.start_put(turn, self.fresh(number))
        self.settle()

    @rule(turn=TURNS)
    @when(lambda self: self.may_put() and not self.model.closed)
    def put(self, turn: int) -> None:
        self.start_put(turn, self.fresh(1), single=True)
        self.settle()

    @rule(turn=TURNS, number=st.integers(1, 60), timeout=st.sampled_from([0, 1e-4]))
    @when(lambda self: self.may_put() and not self.model.closed)
    def put_batch_with_a_timeout(self, turn: int, number: int, timeout: float) -> None:
        ids = self.fresh(number)
        model = self.model
        start = model.accepted
        # A thread that assembles ahead may not have come as far as the model yet.
        least = min(number, max(0, model.room(model.handed)))
        work = functools.partial(
            self.buffer.put_batch, self.records.stacked(ids), timeout
        )
        call = self.lanes.start(turn, work)
        error = call.error()
        put = number
        if error is not None:
            assert type(error) is TimeoutError
            put = error.accepted
        model.offered += ids[:put]
        self.settle()
        assert least <= put
        assert model.accepted == start + put, "more was put than there is room for"

    @rule(turn=TURNS, number=st.integers(0, 3))
    @when(lambda self: self.model.closed and self.producer is None)
    def put_after_the_end(self, turn: int, number: int) -> None:
        batch = self.records.stacked(list(range(number)))
        call = self.lanes.start(turn, lambda: self.buffer.put_batch(batch))
        error = call.error()
        assert type(error) is echobuf.ClosedError
        assert error.accepted == 0

    @rule(turn=TURNS, kind=st.integers(0, 2))
    def put_what_does_not_fit(self, turn: int, kind: int) -> None:
        call = self.lanes.start(
            turn, lambda: self.buffer.put(self.records.wrong(kind), timeout=0)
        )
        assert type(call.error()) is echobuf.SpecError

    def may_end(self) -> bool:
        # What was assembled ahead of a too early end is handed out, or not.
        total = self.model.total
        return total in (None, self.model.accepted) or not self.model.kwargs["prefetch"]

    @rule(turn=TURNS)
    @when(may_end)
    def close(self, turn: int) -> None:
        self.lanes.start(turn, self.buffer.close).result()
        self.model.end()
        self.cut_put()
        self.settle()

    @rule(turn=TURNS)
    def fail(self, turn: int) -> None:
        error = ValueError("upstream")
        self.lanes.start(turn, lambda: self.buffer.fail(error)).result()
        self.model.end(failed=error)
        self.cut_put()
        self.settle()

    # ---- downstream

    def draw(self, out: dict[str, Any] | None, timeout: float | None) -> list[int]:
        batch = self.buffer.next_batch(out=out, timeout=timeout)
        if out is not None and len(batch["id"]) == len(out["id"]):
            assert batch is out
        return self.records.ids(batch)

    @rule(turn=TURNS, into=st.sampled_from([None, False, True]))
    @when(lambda self: len(self.consumers) < CONSUMERS)
    def next_batch(self, turn: int, into: bool | None) -> None:
        size = self.model.kwargs["batch_size"]
        out = None if into is None else self.records.out(size, gaps=into)
        self.consumers.append(self.lanes.start(turn, lambda: self.draw(out, None)))
        self.settle()

    @rule(turn=TURNS, timeout=st.sampled_from([0, 1e-4]))
    @when(lambda self: not self.consumers)
    def next_batch_with_a_timeout(self, turn: int, timeout: float) -> None:
        call = self.lanes.start(turn, lambda: self.draw(None, timeout))
        if type(call.error()) is TimeoutError:
            # What was put is counted when it has its place, and there a bit later.
            if not self.model.kwargs["prefetch"] and self.producer is None:
                assert not self.model.ready()
            return
        self.consumers.append(call)
        self.settle()
        assert not self.consumers, "a batch came that is not there yet"

    @rule(turn=TURNS)
    def ready(self, turn: int) -> None:
        ask = self.buffer.ready
        if self.model.ready():
            until(ask)  # whoever puts or assembles ahead may need a moment
        else:
            assert not self.lanes.start(turn, ask).result()

    # ---- life

    @rule(turn=TURNS, epoch=st.none() | st.integers(0, 5))
    def reset(self, turn: int, epoch: int | None) -> None:
        self.lanes.start(turn, lambda: self.buffer.reset(epoch)).result()
        late = self.not_begun()
        if not (late and self.goes_on()):
            self.cut_put()
            late = []
        self.model.begin(epoch)
        self.put_from = 0
        self.model.offered += late
        self.settle()

    def goes_on(self) -> bool:
        """After a reset: whether the put in flight began in the new epoch."""
        until(lambda: self.producer.done or self.buffer.stats().fresh > 0)
        return not (self.producer.done and self.producer.error())

    def not_begun(self) -> list[int]:
        """The ids of a put in flight that may not even have begun."""
        if self.producer is None or self.model.accepted > self.put_from:
            return []
        return self.model.offered[self.put_from :]

    @rule(turn=TURNS, prefetch=st.integers(0, 2))
    @when(lambda self: self.producer is None and not self.consumers)
    @when(lambda self: not self.model.short())
    def resume(self, turn: int, prefetch: int) -> None:
        state = self.lanes.start(turn, self.buffer.state_dict).result()
        kwargs = {**self.model.kwargs, "prefetch": prefetch}
        model, again = self.model.resumed(kwargs)
        assert state["epoch"] == model.epoch
        assert state["fresh_offset"] == model.accepted
        self.leave()
        self.make_buffer(kwargs)
        self.model = model
        self.buffer.load_state_dict(json.loads(json.dumps(state)))
        if not self.records.rows:
            self.start_put(turn, again)  # may wait: the window was further on
            self.settle()
            return
        for number in again:  # of another length each
            if self.producer is None:
                self.start_put(turn, [number], single=True)
                self.settle()

    @rule(turn=TURNS, prefetch=st.integers(0, 2))
    def leave_and_make_another(self, turn: int, prefetch: int) -> None:
        self.leave()
        uses = [
            lambda: self.buffer.put(self.records.one(0)),
            self.buffer.next_batch,
            self.buffer.ready,
            self.buffer.stats,
            self.buffer.state_dict,
            self.buffer.reset,
            self.buffer.__enter__,
        ]
        for use in uses:
            error = self.lanes.start(turn, use).error()
            assert type(error) is echobuf.ClosedError
        self.lanes.start(turn, self.buffer.close).result()
        self.make_buffer({**self.model.kwargs, "prefetch": prefetch})

    def leave(self) -> None:
        self.buffer.__exit__(None, None, None)
        self.left = True
        self.cut_put()
        for call in self.consumers:
            assert type(call.error()) is echobuf.ClosedError
        self.consumers = []

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        if not hasattr(self, "buffer"):
            return
        if self.model.kwargs["prefetch"]:
            until(lambda: self.buffer.stats().fresh == self.model.accepted)
        stats = self.buffer.stats()
        assert stats.fresh == self.model.accepted
        assert stats.served == self.model.handed

    def teardown(self) -> None:
        if hasattr(self, "buffer"):
            self.buffer.__exit__(None, None, None)
            for call in [self.producer, *self.consumers]:
                if call is not None:
                    call.error()


def test_calls_in_any_order_come_to_what_the_model_says():
    run_state_machine_as_test(Sequences, settings=settings(stateful_step_count=40))
