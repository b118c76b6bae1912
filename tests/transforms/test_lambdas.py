"""`Lambda`: functions on whole batches, and what happens when they fail."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field, OptionError, SpecError, StateError
from echobuf import transforms as T

SPEC = {"a": Field((4,), np.float32), "b": Field((2, 3), np.uint8)}


def buffer_of(transform: Any, **options: Any) -> EchoBuffer:
    options = {"batch_size": 3, "window": 4, "factor": 1, "seed": 1} | options
    return EchoBuffer(SPEC, transform=transform, **options)


def fill(buffer: EchoBuffer, count: int = 4) -> None:
    for i in range(count):
        buffer.put({"a": np.full(4, i, np.float32), "b": np.full((2, 3), i, np.uint8)})
    buffer.close()


class Failing:
    """Fails as often as it is told, then does its work."""

    def __init__(self, times: int, error: BaseException | None = None) -> None:
        self.left = times
        self.error = error or RuntimeError("no luck")

    def __call__(self, leaf: Any) -> Any:
        if self.left:
            self.left -= 1
            raise self.error
        return leaf + 1


def test_shape_and_dtype_become_the_batchs() -> None:
    def pooled(leaf: np.ndarray) -> np.ndarray:
        return leaf.mean(axis=2, dtype=np.float64)

    operation = T.Lambda(pooled, shape=(2,), dtype=np.float64)
    with buffer_of({"b": [T.RandomVerticalFlip(), operation]}) as buffer:
        assert "float64[2]" in repr(buffer)
        fill(buffer)
        first, tail = buffer
    assert first["b"].shape == (3, 2)
    assert tail["b"].shape == (1, 2)
    np.testing.assert_array_equal(first["b"][:, 0], first["a"][:, 0])


def test_several_in_a_row_and_into_out() -> None:
    chain = [T.Lambda(lambda x: x * 2), T.Lambda(lambda x: x + 1)]
    with buffer_of({"a": chain}) as buffer:
        fill(buffer)
        out = {"a": np.zeros((3, 4), np.float32), "b": np.zeros((3, 2, 3), np.uint8)}
        assert buffer.next_batch(out=out) is out
        np.testing.assert_array_equal(out["a"][:, 0], out["b"][:, 0, 0] * 2.0 + 1)


@pytest.mark.parametrize("into", [False, True])
def test_a_batch_whose_function_raised_is_not_lost(into: bool) -> None:
    out = {"a": np.zeros((3, 4), np.float32), "b": np.zeros((3, 2, 3), np.uint8)}
    with buffer_of({"a": [T.Lambda(Failing(2))]}) as buffer:
        fill(buffer, 3)
        for _ in range(2):
            with pytest.raises(SpecError, match=r"transform\['a'\].*Lambda.*no luck"):
                buffer.next_batch(out=out if into else None)
            assert buffer.ready()
            with pytest.raises(StateError, match="Lambda"):
                buffer.state_dict()
        batch = buffer.next_batch(out=out if into else None)
        assert sorted(batch["a"][:, 0]) == [1, 2, 3]
        assert buffer.state_dict()
        with pytest.raises(StopIteration):
            buffer.next_batch()


def test_an_interrupt_loses_nothing() -> None:
    with buffer_of({"a": [T.Lambda(Failing(1, KeyboardInterrupt()))]}) as buffer:
        fill(buffer, 3)
        with pytest.raises(KeyboardInterrupt):
            buffer.next_batch()
        assert sorted(buffer.next_batch()["a"][:, 0]) == [1, 2, 3]


def test_functions_that_returned_are_not_called_again() -> None:
    """The first function changes its leaf in place, before the second raises."""

    def doubled(leaf: np.ndarray) -> np.ndarray:
        leaf *= 2
        return leaf

    chains = {"a": [T.Lambda(doubled)], "b": [T.Lambda(Failing(2))]}
    with buffer_of(chains) as buffer:
        fill(buffer, 3)
        for _ in range(2):
            with pytest.raises(SpecError):
                buffer.next_batch()
        assert sorted(buffer.next_batch()["a"][:, 0]) == [0, 2, 4]


def test_a_refused_batch_ends_with_its_epoch() -> None:
    with buffer_of({"a": [T.Lambda(Failing(1))]}) as buffer:
        fill(buffer, 4)
        with pytest.raises(SpecError):
            buffer.next_batch()
        buffer.reset()
        assert buffer.state_dict()["epoch"] == 1
        fill(buffer, 2)
        assert [len(batch["a"]) for batch in buffer] == [2]


@pytest.mark.parametrize(
    "function",
    [
        lambda leaf: None,
        lambda leaf: leaf[1:],
        lambda leaf: leaf.astype(np.float64),
        lambda leaf: leaf[:, :2],
        list,
        lambda leaf: {"a": leaf},
        lambda leaf: 3.0,
    ],
)
def test_another_structure_is_refused(function: Any) -> None:
    with buffer_of({"a": [T.Lambda(function)]}) as buffer:
        fill(buffer, 3)
        with pytest.raises(SpecError, match=r"transform\['a'\].*float32\[3, 4\]"):
            buffer.next_batch()


def twice(leaf: np.ndarray) -> np.ndarray:
    return leaf * 2


def test_resumed_with_functions() -> None:
    chain = {"a": [T.GaussianNoise(), T.Lambda(twice)]}
    with buffer_of(chain) as buffer:
        fill(buffer)
        buffer.next_batch()
        state = json.loads(json.dumps(buffer.state_dict()))
        rest = buffer.next_batch()
    with buffer_of(chain) as buffer:
        buffer.load_state_dict(state)
        fill(buffer)
        np.testing.assert_array_equal(buffer.next_batch()["a"], rest["a"])


def test_functions_are_no_part_of_a_graph():
    with (
        buffer_of({"a": [T.Lambda(lambda leaf: leaf)]}) as buffer,
        pytest.raises(OptionError, match=r"`before_replay`.*Lambda runs in Python"),
    ):
        buffer.before_replay()
