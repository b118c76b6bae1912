"""An error of upstream's that cannot be printed is told like any other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import echobuf
import echobuf.analysis
import echobuf.metrics
from helpers import make

SPEC = {"x": np.zeros(2, np.float32)}
KWARGS: dict[str, Any] = {"batch_size": 2, "window": 4, "factor": 2}


class UnprintableError(Exception):
    """Neither its `repr` nor its `str` can be had."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


class UnprintableTypeError(UnprintableError, TypeError):
    """The same, of a kind that echobuf looks for."""


def yields_then_raises(count: int) -> Iterator[Any]:
    for _ in range(count):
        yield SPEC
    raise UnprintableError


def check(caught: Any) -> None:
    assert "UnprintableError" in str(caught.value)
    assert isinstance(caught.value.__cause__, UnprintableError)


def test_a_failure_that_a_producer_tells() -> None:
    with make() as buffer:
        buffer.fail(UnprintableError())
        with pytest.raises(echobuf.UpstreamError) as caught:
            buffer.next_batch()
    check(caught)


@pytest.mark.parametrize("count", [0, 1, 9])
def test_an_upstream_that_raises(count: int) -> None:
    loader = echobuf.EchoLoader(yields_then_raises(count), **KWARGS)
    with pytest.raises(echobuf.UpstreamError) as caught:
        list(loader)
    check(caught)


def test_an_array_that_cannot_be_read() -> None:
    class Leaf:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise UnprintableTypeError

    with make() as buffer, pytest.raises(echobuf.SpecError, match="NumPy cannot read"):
        buffer.put({"id": Leaf(), "body": (Leaf(), Leaf())})


def test_a_length_that_raises() -> None:
    class Upstream(list[Any]):
        def __len__(self) -> int:
            raise UnprintableTypeError

    loader = echobuf.EchoLoader(Upstream([SPEC]), **KWARGS)
    with pytest.raises(TypeError, match=r"UnprintableTypeError.*`length="):
        len(loader)


class Stateful:
    """An upstream whose state cannot be had, or cannot be loaded."""

    def __init__(self, fails: str) -> None:
        self.fails = fails
        self.at = 0

    def __iter__(self) -> Iterator[Any]:
        self.at = 0
        for self.at in range(1, 41):
            yield SPEC

    def state_dict(self) -> dict[str, int]:
        if self.fails == "state_dict":
            raise UnprintableError
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        raise UnprintableError


def test_an_upstream_whose_state_cannot_be_had() -> None:
    loader = echobuf.EchoLoader(Stateful("state_dict"), **KWARGS)
    next(iter(loader))
    with pytest.warns(UserWarning, match="cannot be kept: UnprintableError"):
        loader.state_dict()


def test_an_upstream_that_does_not_take_its_state() -> None:
    loader = echobuf.EchoLoader(Stateful("load_state_dict"), **KWARGS)
    batches = iter(loader)
    for _ in range(20):
        next(batches)
    state = loader.state_dict()
    assert state["upstream"]
    other = echobuf.EchoLoader(Stateful("load_state_dict"), **KWARGS)
    other.load_state_dict(state)
    with pytest.raises(echobuf.StateError, match="UnprintableError"):
        next(iter(other))


def test_a_function_of_a_batch_that_raises() -> None:
    def breaks(_: Any) -> Any:
        raise UnprintableError

    chain = echobuf.transforms.Lambda(breaks)
    loader = echobuf.EchoLoader([SPEC] * 8, transform={"x": chain}, **KWARGS)
    with pytest.raises(echobuf.SpecError) as caught:
        list(loader)
    check(caught)


def test_a_sink_that_raises() -> None:
    class Sink:
        def write(self, step: int, metrics: Any) -> None:
            raise UnprintableError

    loader = echobuf.EchoLoader([SPEC] * 8, **KWARGS)
    monitor = echobuf.metrics.Monitor(loader, Sink())
    with pytest.warns(RuntimeWarning, match="Sink raised UnprintableError"):
        monitor.write()


@pytest.mark.parametrize("count", [0, 3])
def test_an_upstream_that_raises_while_it_is_measured(count: int) -> None:
    def step(batch: Any) -> None:
        pass

    with pytest.raises(echobuf.UpstreamError, match="UnprintableError"):
        echobuf.analysis.analyze(yields_then_raises(count), step, batch_size=2)


def test_a_step_that_raises_while_it_is_measured() -> None:
    def step(batch: Any) -> None:
        raise UnprintableError

    with pytest.raises(echobuf.StepError, match="UnprintableError"):
        echobuf.analysis.analyze([SPEC] * 100, step, batch_size=2)
