"""The order in which items have entered a window, where it is not the sampler's.

Items are numbered in the sampler's order, from the start of an epoch. Entries are
numbered in the order in which items entered the window, as the buffer counts them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from echobuf import _core, state
from echobuf.errors import StateError, UpstreamStateError
from echobuf.loader.states import Positions
from echobuf.plain import from_text, to_text
from echobuf.state import ENTERED_KEY, UPSTREAM_KEY, State

_MOST = 2**26  # items in a state: more are no window
_ALSO = ("base", UPSTREAM_KEY, ENTERED_KEY)

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Entered:
    """The items that had entered the window when a state was taken.

    Attributes:
        order: those that are still needed, in the order in which they entered.
        missing: those that had not entered, of those before `limit`, in order.
        limit: no later item had entered.
    """

    order: _Numbers
    missing: _Numbers
    limit: int

    def sealed(self) -> dict[str, Any]:
        """Return the form that is kept."""
        return {
            "order": _pack(self.order),
            "missing": _pack(self.missing),
            "limit": self.limit,
        }


def _unseal_entered(sealed: Any, offset: int, end: int) -> Entered:
    """Return the reverse of `Entered.sealed`.

    Args:
        sealed: the part of a loader's state.
        offset: the number of items that had entered and are needed no more.
        end: one past the last entry that was in the window.

    Raises:
        StateError: it is damaged.
    """
    try:
        found = Entered(
            _unpack(sealed["order"]), _unpack(sealed["missing"]), sealed["limit"]
        )
        numbers = np.concatenate([found.order, found.missing])
        is_sound = (
            isinstance(sealed, Mapping)
            and type(found.limit) is int
            and offset + numbers.size == found.limit
            and offset + found.order.size >= end
            and np.unique(numbers).size == numbers.size
            and (not numbers.size or 0 <= numbers.min() <= numbers.max() < found.limit)
            and bool((np.diff(found.missing) > 0).all())
        )
    except (TypeError, KeyError, ValueError, zlib.error):
        is_sound = False
    if not is_sound:
        raise StateError(
            '`state["entered"]` is damaged. Use a state that `state_dict()` returned, '
            "unchanged."
        )
    return found


def unseal(sealed: Any, arguments: State, has_workers: bool) -> State:
    """Return a loader's position, of a state.

    Args:
        sealed: the state.
        arguments: of the loader that is to go on.
        has_workers: it has worker processes.

    Raises:
        StateError: the state is damaged, of other arguments, or of examples that have
            entered in an order that only workers go on with.
    """
    position = state.unseal(sealed, arguments, also=_ALSO)
    if ENTERED_KEY not in position:
        return position
    if not has_workers:
        raise StateError(
            "`state` was taken with in_order=False, after items had entered in another "
            "order than the sampler's; a loader with worker processes goes on from it: "
            "give `num_workers`, at least 1."
        )
    base = position.get("base", 0)
    place = position["position"] or {}
    position[ENTERED_KEY] = _unseal_entered(
        position[ENTERED_KEY],
        base + position["fresh_offset"],
        base + place.get("resident_end", 0),
    )
    return position


def _pack(numbers: _Numbers) -> str:
    """Return numbers, most of which are near the one before, as a short text."""
    steps = np.diff(numbers, prepend=0).astype("<i8")
    return to_text(zlib.compress(steps.tobytes()))


def _unpack(text: Any) -> _Numbers:
    inflate = zlib.decompressobj()
    data = inflate.decompress(from_text(text), 8 * _MOST)
    if not inflate.eof:
        raise ValueError("it is cut off")
    return np.cumsum(np.frombuffer(data, "<i8"), dtype=np.int64)


@dataclass(frozen=True)
class Replay:
    """The way in which an epoch goes on.

    Attributes:
        order: the first items to be made; they enter in this order.
        missing: the items that are made next.
        limit: of the items before it, no others are made; all from it on are.
        is_exact: the sampler must yield all of `order` and `missing`.
    """

    order: _Numbers
    missing: _Numbers
    limit: int
    is_exact: bool

    @classmethod
    def begin(cls, skipped: int = 0) -> Replay:
        """Return the way of an epoch that begins at an item."""
        none = np.empty(0, np.int64)
        return cls(none, none, skipped, False)

    @classmethod
    def in_order(cls, first: int, count: int) -> Replay:
        """Return the way that begins with `count` items in the sampler's order."""
        order = np.arange(first, first + count, dtype=np.int64)
        return cls(order, order[:0], first + count, False)

    @classmethod
    def of(cls, entered: Entered) -> Replay:
        """Return the way that goes on where a state was taken."""
        return cls(entered.order, entered.missing, entered.limit, True)

    def first_numbers(self) -> _Numbers:
        """Return the numbers of the items that are made before `limit`."""
        return np.concatenate([self.order, self.missing])

    def take(
        self, indices: Iterator[int], goes_on: Callable[[], bool]
    ) -> tuple[Replay, list[int]]:
        """Return the way that the sampler allows, and the indices of its first items.

        Args:
            indices: of the sampler, from its start; what is left are the later items.
            goes_on: returns False to end the search.

        Raises:
            UpstreamStateError: the sampler yields fewer than the state tells of.
        """
        wanted = self.first_numbers().tolist()
        found = dict.fromkeys(wanted, 0)
        count = 0
        while count < self.limit and goes_on():
            index = next(indices, None)
            if index is None:
                break
            if count in found:
                found[count] = index
            count += 1
        if count == self.limit:
            return self, [found[number] for number in wanted]
        if self.is_exact and goes_on():
            raise UpstreamStateError(
                f"upstream yields {count} items, but `state` was taken when item "
                f"{self.limit - 1} had entered the window; give the upstream and the "
                "sampler that it was taken with."
            )
        there = self._cut(count)
        return there, [found[number] for number in there.first_numbers().tolist()]

    def _cut(self, count: int) -> Replay:
        """Return the way of a sampler that yields fewer items than `limit`."""
        order, missing = (each[each < count] for each in (self.order, self.missing))
        return Replay(order, missing, count, self.is_exact)


class ArrivalStates(Positions):
    """The states of an epoch whose items enter as they arrive.

    Args:
        core: the pool that lets them enter.
        term: of the epoch in the buffer.
        epoch: its number.
        offset: the entry with which it began.
        entered: what a loaded state told.
    """

    def __init__(
        self,
        core: _core.WorkerPool,
        term: int,
        epoch: int,
        offset: int,
        entered: Entered | None,
    ) -> None:
        self._core = core
        self._term = term
        self._epoch = epoch
        self._offset = offset
        self._entered = entered
        self._limit = 0
        self._first = np.empty(0, np.int64)

    def begin(self, replay: Replay) -> None:
        """Note the way in which the epoch begins, before an item is submitted."""
        self._limit = replay.limit
        self._first = replay.first_numbers()
        self._core.begin(self._term, replay.order.size)

    def at(self, locate: Callable[[], State]) -> State:
        """Return a position with the items that have entered.

        Args:
            locate: says the position, in this epoch or at the start of the next one.
        """
        position = locate()
        if position["epoch"] != self._epoch or position["position"] is None:
            return position
        offset = position["fresh_offset"] - self._offset
        known = self._core.entered(self._term, offset)
        if known is None:  # nothing was submitted, and nothing has changed
            entered = self._entered
            return position if entered is None else {**position, ENTERED_KEY: entered}
        order, missing, limit = known
        return {**position, ENTERED_KEY: self._named(order, missing, limit)}

    def _named(
        self, order: Sequence[int], missing: Sequence[int], limit: int
    ) -> Entered:
        """Return items by their numbers in the sampler's order.

        Args:
            order: items that have entered, numbered in the order of submission.
            missing: those that have not, before `limit`.
            limit: one past the last item that has entered.
        """
        rest = self._first[limit:]
        return Entered(
            self._numbers(order),
            np.sort(np.concatenate([self._numbers(missing), rest])),
            self._limit + max(0, limit - self._first.size),
        )

    def _numbers(self, submitted: Sequence[int]) -> _Numbers:
        items = np.asarray(submitted, np.int64)
        shift = self._limit - self._first.size
        if not self._first.size:
            return np.asarray(items + shift)
        is_first = items < self._first.size
        within = np.minimum(items, self._first.size - 1)
        return np.where(is_first, self._first[within], items + shift)


class OrderedStates(Positions):
    """The states of an epoch in order, which goes on from one that was not.

    Args:
        epoch: its number.
        offset: the entry with which it began.
        replay: the way in which it began.
    """

    def __init__(self, epoch: int, offset: int, replay: Replay) -> None:
        self._epoch = epoch
        self._offset = offset
        self._replay = replay

    def at(self, locate: Callable[[], State]) -> State:
        """Return a position, with the items that enter in another order next."""
        position = locate()
        if position["epoch"] != self._epoch or position["position"] is None:
            return position
        left = self._replay.first_numbers()[position["fresh_offset"] - self._offset :]
        if not left.size:
            return position
        # The window may reach further: what comes behind enters in order.
        limit = self._replay.limit
        window = position["position"]["resident_end"] - position["fresh_offset"]
        behind = np.arange(limit, limit + max(0, window - left.size), dtype=np.int64)
        order = np.concatenate([left, behind])
        entered = Entered(order, left[:0], limit + behind.size)
        return {**position, ENTERED_KEY: entered}
