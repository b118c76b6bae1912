"""`max_staleness`, and states of buffers that it is given to, from its page."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

import echobuf
from echobuf import EchoBuffer, Field

WAIT = 10.0


def make(**options: Any) -> EchoBuffer:
    usual: dict[str, Any] = {
        "batch_size": 2,
        "window": 8,
        "factor": 2,
        "with_info": True,
    }
    return EchoBuffer(np.int64(0), **{**usual, **options})


def listed(batch: Any, info: Any) -> tuple[Any, ...]:
    return (batch.tolist(), *(a.tolist() for a in info))


def drain(buffer: EchoBuffer, states: list[Any] | None = None) -> list[Any]:
    """Draw all, and keep the state after each batch."""
    out = []
    while True:
        try:
            batch, info = buffer.next_batch(timeout=WAIT)
        except StopIteration:
            return out
        out.append(listed(batch, info))
        if states is not None:
            states.append(json.loads(json.dumps(buffer.state_dict())))


# --- versions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_staleness": 0},
        {"max_staleness": 0, "window": 64, "batch_size": 64},
        {"factor": 8, "max_staleness": 0},
        {"factor": 2.5, "window": 16},
        {"factor": 1, "window": 1, "batch_size": 1},
        {"window": 2, "batch_size": 1},
        {"batch_size": 7, "drop_last": True},
        {"max_staleness": 100},
        {"prefetch": 2},
    ],
    ids=str,
)
def test_served_and_expired_add_up(options: dict[str, Any]) -> None:
    buffer = make(**{"max_staleness": 1, **options})

    def put() -> None:
        for i in range(100):
            buffer.put(i, version=np.int64(i // 7), timeout=WAIT)
        buffer.close()

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    served = sum(len(batch) for batch, *_ in drain(buffer))
    thread.join(WAIT)
    stats = buffer.stats()
    uses = 100 * options.get("factor", 2)
    given_up = options.get("batch_size", 0) - 1 if "drop_last" in options else 0
    assert not thread.is_alive()
    assert stats.served == served
    assert uses - given_up <= stats.served + stats.expired <= uses
    assert (stats.expired == 0) == (options.get("max_staleness", 1) == 100) or (
        options.get("window", 8) <= 2
    )


def test_highest_version_counts_wherever_it_comes() -> None:
    buffer = make(window=16, max_staleness=2, factor=4)
    versions = np.array([0, 9, 1, 7, 6, 9, 8, 0])
    buffer.put_batch(np.arange(8), version=versions)
    buffer.close()
    uses = Counter(i for batch, *_ in drain(buffer) for i in batch)
    assert uses == dict.fromkeys((1, 3, 5, 6), 4)
    assert buffer.stats().expired == 16
    buffer.reset()
    buffer.put_batch(np.arange(8))
    buffer.close()
    assert len(drain(buffer)) == 16  # versions begin anew
    assert buffer.stats().expired == 0


def test_refused_puts_expire_nothing() -> None:
    buffer = make(window=2, batch_size=1, max_staleness=0)
    buffer.put_batch(np.arange(3), version=1)
    buffer.put_batch(np.arange(0), version=50)
    for put, what in (
        (buffer.put, "x"),
        (buffer.put, np.float32(1)),
        (buffer.put_batch, np.zeros((2, 2))),
    ):
        with pytest.raises(echobuf.SpecError):
            put(what, version=50)
    for version in (True, 1.0, "3", -1, 2**63):
        with pytest.raises(echobuf.OptionError, match="`version`"):
            buffer.put(0, version=version)
    for versions in ([1], [[1, 2]], [1.0, 2.0], [1, -1], [1, 2**64]):
        with pytest.raises(echobuf.OptionError, match="`version`"):
            buffer.put_batch(np.arange(2), version=versions)
    with pytest.raises(TimeoutError):  # window and segment are full
        buffer.put(0, version=50, timeout=0)
    buffer.close()
    assert sum(len(batch) for batch, *_ in drain(buffer)) == 6
    assert buffer.stats().expired == 0


def test_versions_at_the_ends_of_int64() -> None:
    top = 2**63 - 1
    buffer = make(max_staleness=5)
    for i, version in enumerate((top - 9, top, top - 5, 0)):
        buffer.put(i, version=version, timeout=WAIT)
    buffer.close()
    assert Counter(i for batch, *_ in drain(buffer) for i in batch) == {1: 2, 2: 2}
    buffer = make(max_staleness=top)
    buffer.put_batch(np.arange(2), version=[0, top])
    buffer.close()
    assert Counter(i for batch, *_ in drain(buffer) for i in batch) == {0: 2, 1: 2}


def test_producers_with_versions_and_consumers() -> None:
    buffer = make(batch_size=7, window=64, factor=4, max_staleness=2)
    items, lock = iter(range(2000)), threading.Lock()
    drawn: list[Any] = []

    def put() -> None:
        while True:
            with lock:
                i = next(items, None)
            if i is None:
                return
            buffer.put(i, version=i // 20, timeout=WAIT)

    def draw() -> None:
        drawn.extend(drain(buffer))

    producers = [threading.Thread(target=put, daemon=True) for _ in range(3)]
    consumers = [threading.Thread(target=draw, daemon=True) for _ in range(2)]
    for thread in producers + consumers:
        thread.start()
    for thread in producers:
        thread.join(WAIT)
    buffer.close()
    for thread in consumers:
        thread.join(WAIT)
    assert not any(thread.is_alive() for thread in producers + consumers)
    stats = buffer.stats()
    uses = Counter(i for batch, *_ in drawn for i in batch)
    assert stats.served == sum(uses.values())
    assert stats.served + stats.expired == 4 * 2000
    assert max(uses.values()) <= 4
    assert stats.expired > 0


@pytest.mark.parametrize("per_version", [1, 3])
def test_one_thread_puts_until_a_batch_is_ready(per_version: int) -> None:
    """Put until `ready()`: expired examples must not keep `put` from going on."""
    buffer, i = make(batch_size=4, max_staleness=0), 0
    for _ in range(20):
        while not buffer.ready():
            buffer.put(i, version=i // per_version, timeout=0.3)
            i += 1
        buffer.next_batch(timeout=WAIT)


# --- states --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_states_with_versions_resume_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = int(rng.choice([1, 2, 3, 4]))
    window = factor * int(rng.integers(2, 9))
    n = int(rng.integers(2, window + 1))
    options = {
        "window": window,
        "factor": factor,
        "batch_size": int(rng.integers(1, window // factor + 1)),
        "max_staleness": int(rng.integers(0, 4)),
    }
    versions = rng.integers(0, 8, n)

    def resumed(state: Any, states: list[Any] | None = None) -> list[Any]:
        buffer, first = make(**options), 0
        if state is not None:
            buffer.load_state_dict(state)
            first = state["fresh_offset"]
        buffer.put_batch(np.arange(first, n), version=versions[first:], timeout=WAIT)
        buffer.close()
        return drain(buffer, states)

    states: list[Any] = []
    whole = resumed(None, states)
    for k, state in enumerate(states[:-1]):
        assert resumed(state) == whole[k + 1 :]


def test_whole_batches_expire() -> None:
    buffer = EchoBuffer(
        Field((4,), np.int64),
        window=8,
        factor=4,
        unit="batch",
        with_info=True,
        max_staleness=1,
    )

    def put() -> None:
        for i in range(30):
            buffer.put(np.full(4 if i % 5 else 2, i), version=i // 4, timeout=WAIT)
        buffer.close()

    threading.Thread(target=put, daemon=True).start()
    served = 0
    while True:
        try:
            batch, info = buffer.next_batch(timeout=WAIT)
        except StopIteration:
            break
        number = int(batch[0])
        assert len(batch) == len(info.index) == (4 if number % 5 else 2)
        assert info.version.tolist() == [number // 4] * len(batch)
        served += 1
    stats = buffer.stats()
    assert stats.expired > 0
    assert stats.served == served
    assert stats.served + stats.expired == 120
