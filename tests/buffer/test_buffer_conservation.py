"""Nothing is lost, torn or served too often, whatever the threads do."""

import itertools
import math
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from helpers import (
    PUT_SIZES,
    SPEC,
    Worker,
    drain,
    expected_draws,
    on_device,
    options,
    pump,
    put_all,
)
from schedule_reference import ratio

pytestmark = pytest.mark.contract


def run(
    buffer: Any, parts: list[range], sizes: list[int], consumers: int
) -> list[list[int]]:
    """Several producers, one a part, and several consumers: all batches served."""
    got: list[list[int]] = []
    lock = threading.Lock()

    def consume() -> None:
        for batch in drain(buffer):
            with lock:
                got.append(batch)

    drawing = [Worker(consume) for _ in range(consumers)]
    filling = [Worker(put_all, buffer, part, sizes) for part in parts]
    for worker in filling:
        worker.result()
    buffer.close()
    for worker in drawing:
        worker.result()
    return got


def split(n: int, producers: int) -> list[range]:
    edges = [n * i // producers for i in range(producers + 1)]
    return list(itertools.starmap(range, itertools.pairwise(edges)))


@settings(deadline=None, max_examples=80)
@given(
    options(),
    st.integers(0, 300),
    PUT_SIZES,
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_fixed_use_is_exact(kwargs, n, sizes, producers, consumers):
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        got = run(buffer, split(n, producers), sizes, consumers)
        stats = buffer.stats()
    uses = Counter(itertools.chain.from_iterable(got))
    total = len(expected_draws(kwargs, n))
    given_up = total - uses.total()
    assert given_up == (total % kwargs["batch_size"] if kwargs["drop_last"] else 0)
    factor = ratio(kwargs["factor"])
    lawful = {math.floor(factor), math.ceil(factor)}
    if not given_up:
        assert sorted(uses) == list(range(n))
        assert set(uses.values()) <= lawful
    assert all(use <= max(lawful) for use in uses.values())
    assert stats.fresh == n
    assert stats.served == uses.total()


AUTO = st.fixed_dictionaries(
    {
        "window": st.integers(1, 60),
        "max_factor": st.integers(1, 8),
        "seed": st.integers(0, 2**63 - 1),
        "prefetch": st.integers(0, 3),
    }
)


@settings(deadline=None, max_examples=80)
@given(
    AUTO,
    st.integers(0, 300),
    PUT_SIZES,
    st.integers(1, 3),
    st.integers(1, 3),
    st.data(),
)
def test_auto_use_is_between_one_and_the_most(
    kwargs, n, sizes, producers, consumers, data
):
    size = data.draw(st.integers(1, kwargs["window"]))
    with echobuf.EchoBuffer(SPEC, factor="auto", batch_size=size, **kwargs) as buffer:
        got = run(buffer, split(n, producers), sizes, consumers)
    uses = Counter(itertools.chain.from_iterable(got))
    assert sorted(uses) == list(range(n))
    assert all(use <= kwargs["max_factor"] for use in uses.values())
    assert sorted(map(len, got))[1:] == [size] * (len(got) - 1)


@settings(deadline=None, max_examples=40)
@given(AUTO, st.integers(1, 200), PUT_SIZES)
def test_auto_serves_nothing_twice_in_a_pass(kwargs, n, sizes):
    kwargs["prefetch"] = 0
    in_pass: dict[int, list[int]] = {}
    with echobuf.EchoBuffer(SPEC, factor="auto", batch_size=1, **kwargs) as buffer:
        for (number,) in pump(buffer, range(n), sizes):
            in_pass.setdefault(buffer.stats().passes, []).append(number)
    for numbers in in_pass.values():
        assert len(set(numbers)) == len(numbers)
        assert max(numbers) - min(numbers) == len(numbers) - 1
    firsts = [min(numbers) for numbers in in_pass.values()]
    assert firsts == sorted(firsts)


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Threads take the interpreter from each other as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize("factor", [1, 3, 2.5, "auto"])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_many_threads_and_many_laps_of_the_ring(factor, prefetch):
    kwargs = {"window": 256, "batch_size": 64, "factor": factor, "prefetch": prefetch}
    n = 5_000 if on_device() else 20_000  # it takes longer there
    with echobuf.EchoBuffer(SPEC, max_factor=4, **kwargs) as buffer:
        got = run(buffer, split(n, 4), [0, 1, 300, 17], consumers=3)
    uses = Counter(itertools.chain.from_iterable(got))
    assert sorted(uses) == list(range(n))
    if factor == "auto":
        assert max(uses.values()) <= 4
    else:
        assert set(uses.values()) == {math.floor(factor), math.ceil(factor)}
