"""Calls in any order from several producers and consumers: nothing lost or torn.

What order the calls take is left to the threads, so it is the contract's counts that
must hold: each example exactly e times, or between once and `max_factor` times.
"""

import functools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

import echobuf
from helpers import FACTORS, WAIT_S, expected_passes, options
from lanes import Call, Lanes, when
from records import Records
from schedule_reference import ratio

pytestmark = pytest.mark.contract

LANES = 6
TURNS = st.integers(0, LANES)
TIMEOUTS = st.sampled_from([None, None, 0, 1e-4])


@functools.cache
def lanes() -> Lanes:
    return Lanes(LANES)


@st.composite
def auto_options(draw: st.DrawFn) -> dict[str, Any]:
    kwargs = draw(options(factors=st.just(1)))
    return {**kwargs, "factor": "auto", "max_factor": draw(st.integers(1, 5))}


class SharedSequences(RuleBasedStateMachine):
    """A buffer, and the calls in flight from any number of threads.

    Attributes:
        puts: calls in flight, with the ids that they put.
        nexts: calls in flight.
        put: ids known to have been put in this epoch.
        refused: ids known not to have been put.
        doubtful: ids of puts that a reset may have come before or after.
        uses: how often each id was served, in any epoch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lanes = lanes()
        self.next_id = 0
        self.kwargs: dict[str, Any] = {}

    @initialize(
        kwargs=options(factors=FACTORS) | auto_options(),
        words=st.sampled_from([0, 1, 37, 3000]),
    )
    def make(self, kwargs: dict[str, Any], words: int) -> None:
        self.kwargs = kwargs
        self.records = Records(words)
        self.buffer = echobuf.EchoBuffer(self.records.spec(), **kwargs)
        self.puts: list[tuple[Call, range]] = []
        self.nexts: list[Call] = []
        self.put: set[int] = set()
        self.refused: set[int] = set()
        self.doubtful: set[int] = set()
        self.uses: Counter[int] = Counter()
        self.failures: list[Exception] = []
        self.resets = 0
        self.epoch = 0
        self.failed = False  # in this epoch

    def lawful_uses(self) -> tuple[int, int]:
        """How often an example is served at least and at most."""
        if self.kwargs["factor"] == "auto":
            return 1, self.kwargs["max_factor"]
        factor = ratio(self.kwargs["factor"])
        return math.floor(factor), math.ceil(factor)

    # ---- what has come back

    def collect(self) -> None:
        """Books the calls that have returned; others stay in flight."""
        ended = [put for put in self.puts if put[0].done]
        self.puts = [put for put in self.puts if put not in ended]
        for call, ids in ended:
            self.book_put(call, ids)
        drawn = [call for call in self.nexts if call.done]
        self.nexts = [call for call in self.nexts if call not in drawn]
        for call in drawn:
            self.book_next(call)

    def book_put(self, call: Call, ids: range) -> None:
        error = call.error()
        accepted = len(ids)
        if error is not None:
            assert type(error) in (TimeoutError, echobuf.ClosedError)
            accepted = error.accepted
        self.put |= set(ids[:accepted]) - self.doubtful
        self.refused |= set(ids[accepted:])

    def book_next(self, call: Call) -> None:
        error = call.error()
        if error is None:
            self.book_batch(call.result())
            return
        assert type(error) in (TimeoutError, StopIteration, echobuf.UpstreamError)
        if type(error) is echobuf.UpstreamError:
            # Two resets may have come between the failure and its being told.
            known = [*self.failures, *([None] if self.resets > 1 else [])]
            assert error.__cause__ in known

    def book_batch(self, batch: list[int]) -> None:
        assert len(batch) <= self.kwargs["batch_size"]
        self.uses.update(batch)
        assert max(map(self.uses.__getitem__, batch)) <= self.lawful_uses()[1]

    def may_start(self) -> bool:
        self.collect()
        return len(self.puts) + len(self.nexts) < LANES

    # ---- calls

    def fresh(self, number: int) -> range:
        self.next_id += number
        return range(self.next_id - number, self.next_id)

    @rule(turn=TURNS, number=st.integers(0, 60), timeout=TIMEOUTS)
    @when(may_start)
    def put_batch(self, turn: int, number: int, timeout: float | None) -> None:
        ids = self.fresh(number)
        batch = self.records.stacked(list(ids))
        work = functools.partial(self.buffer.put_batch, batch, timeout)
        self.puts.append((self.lanes.start(turn, work), ids))

    @rule(turn=TURNS, timeout=TIMEOUTS)
    @when(may_start)
    def put_one(self, turn: int, timeout: float | None) -> None:
        ids = self.fresh(1)
        example = self.records.one(ids[0])
        work = functools.partial(self.buffer.put, example, timeout)
        self.puts.append((self.lanes.start(turn, work), ids))

    @rule(turn=TURNS, timeout=TIMEOUTS, into=st.sampled_from([None, False, True]))
    @when(may_start)
    def next_batch(self, turn: int, timeout: float | None, into: bool | None) -> None:
        out = None
        if into is not None:
            out = self.records.out(self.kwargs["batch_size"], gaps=into)
        buffer, records = self.buffer, self.records

        def draw() -> list[int]:
            return records.ids(buffer.next_batch(out=out, timeout=timeout))

        self.nexts.append(self.lanes.start(turn, draw))

    @rule()
    def look(self) -> None:
        stats = self.buffer.stats()
        assert stats.resident <= stats.fresh
        assert self.buffer.ready() in (False, True)
        assert self.buffer.state_dict()["fresh_offset"] <= self.buffer.stats().fresh

    @rule()
    def close(self) -> None:
        self.buffer.close()

    @rule()
    def fail(self) -> None:
        self.failed = True
        self.failures.append(ValueError("upstream"))
        self.buffer.fail(self.failures[-1])

    @rule(epoch=st.none() | st.integers(0, 3))
    def reset(self, epoch: int | None) -> None:
        # A put in flight may not have begun yet: then it belongs to the new epoch.
        for _, ids in self.puts:
            self.doubtful |= set(ids)
        self.buffer.reset(epoch)
        self.resets += 1
        self.epoch = self.epoch + 1 if epoch is None else epoch
        self.collect()
        self.put.clear()
        self.failed = False

    @rule()
    def finish(self) -> None:
        """Serves the rest of the epoch, and does the books."""
        self.buffer.close()
        last: list[list[int]] = []
        if not self.failed:
            last = list(self.drain())
        for call in [*(call for call, _ in self.puts), *self.nexts]:
            call.error()
        self.collect()
        for batch in last:
            self.book_batch(batch)
        assert not any(self.uses[number] for number in self.refused)
        if not self.failed:
            self.check_exact_use()
        self.buffer.reset()
        self.resets += 1
        self.epoch += 1
        self.put.clear()
        self.doubtful.clear()
        self.failed = False

    def drain(self) -> Iterator[list[int]]:
        while True:
            try:
                batch = self.buffer.next_batch(timeout=WAIT_S)
            except StopIteration:
                return
            yield self.records.ids(batch)

    def check_exact_use(self) -> None:
        least, _ = self.lawful_uses()
        kept_back = sum(max(0, least - self.uses[number]) for number in self.put)
        if not self.kwargs["drop_last"]:
            assert kept_back == 0
        assert kept_back < self.kwargs["batch_size"]
        if self.kwargs["factor"] == "auto" or self.doubtful:
            return
        served = sum(self.uses[number] for number in self.put)
        passes = expected_passes(self.kwargs, len(self.put), self.epoch)
        total = sum(map(len, passes))
        if self.kwargs["drop_last"]:
            total -= total % self.kwargs["batch_size"]
        assert served == total

    @rule()
    def leave_and_make_another(self) -> None:
        self.leave()
        self.make(self.kwargs, self.records.words)

    def leave(self) -> None:
        self.buffer.__exit__(None, None, None)
        for call in [*(call for call, _ in self.puts), *self.nexts]:
            error = call.error()
            assert not isinstance(error, AssertionError), error

    def teardown(self) -> None:
        if hasattr(self, "buffer"):
            self.finish()
            self.leave()


def test_calls_of_many_threads_in_any_order_lose_nothing():
    run_state_machine_as_test(
        SharedSequences, settings=settings(stateful_step_count=40)
    )
