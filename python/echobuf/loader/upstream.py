"""Upstream as a loader begins it, once an epoch, and its `set_epoch`."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from echobuf.errors import StateError, UpstreamError
from echobuf.loader.look_ahead import LookAhead
from echobuf.loader.source import (
    Order,
    Sampled,
    as_data_loader,
    batch_sampler_of,
    begins_anew,
    is_one_shot,
    to_repeat,
)
from echobuf.loader.states import as_stateful, place, refused
from echobuf.progress import watching
from echobuf.state import UPSTREAM_KEY, State, UpstreamState

if TYPE_CHECKING:
    from echobuf.loader.readers import Reader


def describe_next() -> str:
    """Return what is waited for, where upstream runs in this process."""
    return "`next` of upstream has not returned"


@dataclass
class UpstreamStart:
    """The result of beginning an epoch of upstream.

    Attributes:
        items: its iterator, past the first item; None if there is nothing to iterate.
        first: the first item.
        error: what it raised, if it did.
        offset: fresh examples of the epoch before the first item.
        state: of upstream before the first item, where that is known.
    """

    items: Iterator[Any] | None = None
    first: Any = None
    error: Exception | None = None
    offset: int = 0
    state: UpstreamState | None = None

    def take(self) -> tuple[Iterator[Any], Any]:
        """Return its items and the first one, and hold them no longer."""
        items, first = self.items, self.first
        assert items is not None
        self.drop()
        return items, first

    def drop(self) -> None:
        """Let go of its items: on the thread that runs upstream, which may close it."""
        self.items = self.first = None


class Upstream:
    """An iterable that is begun for each epoch, if it has another one to give.

    Attributes:
        iterable: the same.
        stateful: the iterable, if it has a state that says where it is; else None.
        epochs: passes numbers of epochs on to it.
    """

    def __init__(self, iterable: Iterable[Any]) -> None:
        self.iterable = iterable
        self.epochs = EpochForwarder(iterable)
        self.stateful = as_stateful(iterable)
        self._is_begun = False
        self._last: weakref.ref[Any] | None = None  # the iterator of the last epoch

    def check_state(self, position: State) -> State:
        """Return a loader's position, without another rank's state of upstream.

        Raises:
            StateError: it has one, and upstream has none.
        """
        state: UpstreamState | None = position.get(UPSTREAM_KEY)
        if state is None:
            return position
        if self.stateful is None:
            raise StateError(
                '`state["upstream"]` is the state of an upstream that keeps one, but '
                f"here it is a {type(self.iterable).__name__}; give the upstream that "
                "it was taken with, or leave this key out: upstream is then read from "
                "its start."
            )
        if state.place == place():
            return position
        warnings.warn(
            f"`state` was taken on rank {state.place[0]} of {state.place[1]}: its "
            "upstream is not this one's, which is read from its start. Keep a state "
            "for each rank.",
            stacklevel=3,
        )
        return {key: value for key, value in position.items() if key != UPSTREAM_KEY}

    def begin(
        self,
        state: UpstreamState | None = None,
        describe: Callable[[], str] = describe_next,
    ) -> UpstreamStart:
        """Call `iter(upstream)` and takes the first item.

        Args:
            state: that upstream goes on from.
            describe: returns what a wait for that item is for.

        Raises:
            UpstreamError: it gives one epoch only and has been used.
            UpstreamStateError: it does not take the state.
        """
        stateful = self.stateful
        if stateful is None:
            return self._begin(None, describe)
        stateful.unload()
        if state is not None:
            stateful.load(state)
            start = self._begin(state, describe)
            try:
                if start.items is not None or start.error is not None:
                    return start
            finally:
                del start  # its error holds this frame
            stateful.unload()  # nothing is left there: what comes begins anew
        return self._begin(None, describe)

    def _begin(
        self, state: UpstreamState | None, describe: Callable[[], str]
    ) -> UpstreamStart:
        try:
            items = iter(self.iterable)
        except Exception as error:
            if state is not None:
                raise refused(self.iterable, error) from error
            return UpstreamStart(error=error)
        is_again = self._is_again(items)
        if is_again and is_one_shot(items):
            raise self._one_shot_error()
        offset = 0
        if state is not None and state.offset is not None:
            offset = state.offset
        elif self.stateful is not None:
            state = self.stateful.take_at(0)
        try:
            with watching("first item", lambda: f"the first item: {describe()}"):
                first = next(items)
        except StopIteration:
            if is_again:
                raise self._one_shot_error() from None
            return UpstreamStart()
        except Exception as error:
            return UpstreamStart(error=error)
        return UpstreamStart(items, first, offset=offset, state=state)

    def _is_again(self, items: Iterator[Any]) -> bool:
        """Return True if `items` was the last epoch's iterator too; note it.

        It may have begun anew nevertheless.
        """
        last = None if self._last is None else self._last()
        is_own = items is self.iterable
        is_again = last is items or (is_own and self._is_begun)
        self._is_begun = True
        try:
            self._last = weakref.ref(items)
        except TypeError:  # built-in iterators; those of containers are made anew
            self._last = None
        return is_again and not begins_anew(self.iterable)

    def _one_shot_error(self) -> UpstreamError:
        return UpstreamError(
            f"`upstream` is a {type(self.iterable).__name__}, which gives one epoch "
            "only and has been used. "
            + (
                to_repeat(self.iterable)
                or "For more epochs pass an object whose `__iter__` begins anew, such "
                "as a list, a DataLoader, or a class with a generator as `__iter__`."
            )
        )


def begin_upstream(
    upstream: Upstream,
    reader: Reader,
    state: UpstreamState | None,
    looks_ahead: bool,
) -> UpstreamStart:
    """Begin an epoch of upstream, on its thread.

    A function, which holds no more of the loader than it needs.

    Args:
        upstream: that is iterated.
        reader: makes examples of what it yields.
        state: that upstream goes on from.
        looks_ahead: items are looked at before they are put.

    Raises:
        UpstreamError: as `Upstream.begin`.
    """
    process = os.getpid()
    start = upstream.begin(state, reader.describe_wait)
    if start.error is not None and os.getpid() != process:
        raise start.error  # in a child that upstream has forked, which ends with it
    if looks_ahead and start.items is not None:
        start.items = LookAhead(start.items, start.first)
    try:
        return reader.check(start)
    finally:
        del start  # its error holds this frame


class EpochForwarder:
    """The parts of upstream with `set_epoch`, and the epoch that they are in.

    Attributes:
        number: the epoch that they were told last; None if they never were.
    """

    def __init__(self, upstream: Any) -> None:
        self._upstream = upstream
        self.number: int | None = None
        self._noted: dict[int, Any] = {}  # epochs when upstream was begun, by id

    def note_epochs(self) -> None:
        """Note which epoch each is in, now that upstream is begun.

        A trainer that finds a sampler on the loader tells it before the loader.
        """
        self._noted = {
            id(each): getattr(each, "epoch", self.number)
            for each in _takers(self._upstream)
        }

    def set(self, number: int) -> bool:
        """Call `set_epoch`; False if nothing there was in another epoch."""
        changed = False
        for each in _takers(self._upstream):
            now = getattr(each, "epoch", self.number)
            changed |= now != number or self._noted.get(id(each), now) != number
            each.set_epoch(number)
        self.number = number
        return changed

    def set_next(self, number: int) -> None:
        """Call `set_epoch`, if this loader was ever told an epoch's number."""
        if self.number is not None:
            self.set(number)


def _takers(upstream: Any) -> Iterator[Any]:
    """Yield upstream, or the samplers and the dataset that it is made of."""
    if takes_epoch(upstream):
        yield upstream
        return
    seen: list[Any] = []
    for each in _parts(upstream):
        if takes_epoch(each) and not any(each is other for other in seen):
            seen.append(each)
            yield each


def _parts(upstream: Any) -> tuple[Any, ...]:
    if isinstance(upstream, Sampled):
        upstream = upstream.order
    if isinstance(upstream, Order):
        return upstream.sampler, upstream.dataset
    loader = as_data_loader(upstream)
    if loader is None:
        return ()
    batch_sampler = loader.batch_sampler
    inner = getattr(batch_sampler_of(loader), "sampler", None)
    shard = getattr(batch_sampler, "batch_sampler", None)  # of Accelerate
    whole = getattr(shard, "sampler", None)
    return loader.sampler, batch_sampler, inner, shard, whole, loader.dataset


def takes_epoch(each: Any) -> bool:
    """Return True if it is to be told the number of an epoch."""
    return callable(getattr(each, "set_epoch", None))
