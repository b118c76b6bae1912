"""Datasets some of whose examples take long, and the order in which they arrive."""

import json
import time
from collections import Counter
from itertools import chain
from typing import Any

import echobuf
from echobuf.loader.arrivals import unseal
from echobuf.loader.loader import internals_of
from opened_states import opened
from ragged_worker_data import Texts
from worker_data import KWARGS, Numbers, ids, load


class Tailed(Numbers):
    """A dataset every seventh example of which takes long."""

    def __getitem__(self, index: int) -> Any:
        take(index)
        return super().__getitem__(index)


class TailedTexts(Texts):
    """The same of examples that differ in length."""

    def __getitem__(self, index: int) -> Any:
        take(index)
        return super().__getitem__(index)


def take(index: int) -> None:
    time.sleep(0.02 if index % 7 == 3 else 0.0005)


def flat(batches: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(batches))


def used_exactly(batches: list[list[int]], n: int, factor: int) -> None:
    assert Counter(flat(batches)) == dict.fromkeys(range(n), factor)


def reload(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state as a file brings it back."""
    again: dict[str, Any] = json.loads(json.dumps(state))
    assert again == state
    return again


class Arrivals:
    """The order in which items have entered the window in an epoch.

    States tell what is needed of it; an epoch of many states tells all of it.
    """

    def __init__(self) -> None:
        self.items: list[int] = []

    def note(self, loader: echobuf.EchoLoader) -> dict[str, Any]:
        """Take a state, which must agree with those before; return it."""
        state = reload(loader.state_dict())
        position = unseal(state, internals_of(loader).plan.sealed(), True)
        if "entered" not in position:
            return state
        entered, first = position["entered"], state["fresh_offset"]
        order = entered.order.tolist()
        assert first <= len(self.items), "there is a gap"
        both = min(len(self.items) - first, len(order))
        assert order[:both] == self.items[first : first + both], "the order has changed"
        self.items += order[both:]
        others = set(range(entered.limit)) - set(self.items[: first + len(order)])
        assert entered.missing.tolist() == sorted(others)
        return state

    def draw(
        self, loader: echobuf.EchoLoader, epoch: Any, count: int
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return batches, and a state behind them once a segment more has entered."""
        batches = []
        for _ in range(count):
            batches.append(next(epoch))
            self.note(loader)
        segment = KWARGS["window"] // KWARGS["factor"]
        while True:
            state = self.note(loader)
            if len(self.items) >= opened(state)["position"]["resident_end"] + segment:
                return batches, state
            time.sleep(0.001)

    def certain(self, n: int, kwargs: dict[str, Any]) -> list[list[int]]:
        """Return the batches that follow from this order, whatever enters after it."""
        rest = sorted(set(range(n)) - set(self.items))
        ways = [[*self.items, *rest], [*self.items, *rest[::-1]]]
        one, other = (ids(load(Numbers(n), 0, **kwargs, sampler=way)) for way in ways)
        if len(rest) < 2:
            return one
        same = [a == b for a, b in zip(one, other, strict=True)]
        return one[: same.index(False)]
