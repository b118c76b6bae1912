"""A state fits a transform that shares its operations between leaves as its own did."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, EchoLoader, Field, StateError
from echobuf import transforms as T
from helpers import WAIT_S
from opened_states import opened

pytestmark = pytest.mark.contract

SPEC = {"image": Field((8, 6, 3), np.uint8), "mask": Field((8, 6), np.uint8)}


def shared() -> dict[str, Any]:
    crop, flip = T.RandomCrop(4), T.RandomHorizontalFlip()
    return {"image": [crop, flip], "mask": [crop, flip]}


def half_shared() -> dict[str, Any]:
    crop = T.RandomCrop(4)
    flips = T.RandomHorizontalFlip(), T.RandomHorizontalFlip()
    return {"image": [crop, flips[0]], "mask": [crop, flips[1]]}


def apart() -> dict[str, Any]:
    return {name: [T.RandomCrop(4), T.RandomHorizontalFlip()] for name in SPEC}


def crossed() -> dict[str, Any]:
    """The same words as `twice`, and other objects behind them."""
    flips = T.RandomHorizontalFlip(), T.RandomHorizontalFlip()
    return {"image": list(flips), "mask": [flips[1], flips[0]]}


def twice() -> dict[str, Any]:
    flips = [T.RandomHorizontalFlip(), T.RandomHorizontalFlip()]
    return {"image": flips, "mask": flips}


def buffer_of(transform: Any) -> EchoBuffer:
    return EchoBuffer(SPEC, batch_size=2, window=4, transform=transform, seed=3)


def state_of(transform: Any) -> dict[str, Any]:
    with buffer_of(transform) as buffer:
        for i in range(4):
            buffer.put(
                {
                    "image": np.full((8, 6, 3), i, np.uint8),
                    "mask": np.zeros((8, 6), np.uint8),
                },
                timeout=WAIT_S,
            )
        buffer.next_batch()
        return buffer.state_dict()


ALIKE = [(shared, half_shared), (shared, apart), (half_shared, apart), (crossed, twice)]


@pytest.mark.parametrize(("one", "other"), [*ALIKE, *(pair[::-1] for pair in ALIKE)])
def test_a_transform_that_shares_otherwise(one: Any, other: Any) -> None:
    """Its chains read the same, and its draws differ."""
    state = state_of(one())
    with (
        buffer_of(other()) as buffer,
        pytest.raises(StateError, match=r"`transform`.*same object"),
    ):
        buffer.load_state_dict(state)


@pytest.mark.parametrize("make", [shared, half_shared, apart, crossed, twice])
def test_a_transform_that_shares_as_the_states(make: Any) -> None:
    state = json.loads(json.dumps(state_of(make())))
    with buffer_of(make()) as buffer:
        buffer.load_state_dict(state)
        assert buffer.state_dict()["arguments"] == state["arguments"]


def of_before(state: dict[str, Any]) -> dict[str, Any]:
    """A state as it was while none recorded what is shared."""
    state = opened(state)
    arguments = {k: v for k, v in state["arguments"].items() if "numbers" not in k}
    assert len(arguments) == len(state["arguments"]) - 1
    body = {k: v for k, v in state.items() if k != "checksum"} | {
        "arguments": arguments
    }
    text = json.dumps(body, sort_keys=True)
    return {**body, "checksum": zlib.crc32(text.encode())}


@pytest.mark.parametrize("make", [None, shared, apart])
def test_states_of_before_still_load(make: Any) -> None:
    state = of_before(state_of(make() if make else None))
    with buffer_of(make() if make else None) as buffer:
        buffer.load_state_dict(state)


def load_and_draw(loader: EchoLoader, state: dict[str, Any]) -> None:
    loader.load_state_dict(state)
    next(iter(loader))


@pytest.mark.parametrize("later", [False, True])
def test_loaders(later: bool) -> None:
    """A loader that does not know its transform yet checks with its first item."""
    items = [
        {"image": np.full((8, 6, 3), i, np.uint8), "mask": np.zeros((8, 6), np.uint8)}
        for i in range(8)
    ]

    def loader(transform: Any) -> EchoLoader:
        return EchoLoader(items, batch_size=2, window=4, transform=transform)

    with loader(shared()) as one:
        iterator = iter(one)
        next(iterator)
        state = one.state_dict()
    with loader(apart()) as other:
        if not later:
            next(iter(other))
        with pytest.raises(StateError, match="same object"):
            load_and_draw(other, state)
    with loader(shared()) as other:
        other.load_state_dict(state)
        assert len(list(other)) > 0
