"""States of upstream, taken between items and loaded before an epoch."""

from __future__ import annotations

import contextlib
import inspect
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from echobuf import hints
from echobuf._engine.waits import segment_starts
from echobuf.errors import EchobufError, UpstreamStateError, describe, message
from echobuf.loader.look_ahead import LookAhead
from echobuf.loader.source import as_data_loader, begins_anew
from echobuf.loader_buffer import LoaderBuffer
from echobuf.options import Options
from echobuf.plain import decode, encode
from echobuf.state import UPSTREAM_KEY, State, UpstreamState, start_of


def as_stateful(upstream: Any) -> Stateful | None:
    """Return the upstream, if it has a state that says exactly where it is."""
    methods = (getattr(upstream, name, None) for name in _METHODS)
    if not all(_takes(method, count) for count, method in enumerate(methods)):
        return None
    if any(hints.is_of(upstream, *kind) for kind in _OTHER_MEANING):
        return None
    if not all(_keeps_all(stream) for stream in _streams(upstream)):
        return None
    return Stateful(upstream)


def _takes(method: Any, count: int) -> bool:
    """Return True if a method can be called with so many arguments."""
    try:
        inspect.signature(method).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


_METHODS = ("state_dict", "load_state_dict")
_OTHER_MEANING = (("torch", "Module"), ("torch", "Optimizer"))


class Stateful:
    """An upstream with `state_dict` and `load_state_dict`.

    Args:
        upstream: `state_dict()` between two items says where it is, `load_state_dict`
            makes the next `iter` go on there, and the `iter` after that begins anew.
    """

    def __init__(self, upstream: Any) -> None:
        self._upstream = upstream
        # Others may set themselves back with the first `next`: then their state tells
        # of the last epoch until it comes.
        self._rewinds = begins_anew(upstream)
        self._loaded = False

    def take(self, offset: int | None) -> UpstreamState:
        """Return upstream's state, between two items.

        Raises:
            NotPlainError: there is something in it that cannot be kept.
            Exception: what upstream raised.
        """
        state = encode({"state": self._upstream.state_dict()})
        state["epochs"] = [int(stream.epoch) for stream in _streams(self._upstream)]
        return UpstreamState(offset, state, place())

    def take_at(self, offset: int | None) -> UpstreamState | None:
        """Return the state at an epoch's start (0) or end (None), where it is known.

        Errors are ignored: `take` raises them between items, too.
        """
        if not self._rewinds:
            return None
        try:
            return self.take(offset)
        except Exception:
            return None

    def load(self, state: UpstreamState) -> None:
        """Make the next `iter` continue where the state was taken.

        Raises:
            UpstreamStateError: upstream raised.
        """
        kept = decode(state.encoded)
        try:
            streams = _streams(self._upstream)
            for stream, epoch in zip(streams, kept.get("epochs", ()), strict=True):
                stream.set_epoch(epoch)  # one of another epoch is not gone on with
            self._loaded = True
            self._upstream.load_state_dict(kept["state"])
        except Exception as error:
            raise refused(self._upstream, error) from error

    def unload(self) -> None:
        """Make the next `iter` begin at the start."""
        if self._loaded:
            self._loaded = False
            for stream in _streams(self._upstream):
                stream.load_state_dict({})  # else each `iter` goes on there


def refused(upstream: Any, error: Exception) -> UpstreamStateError:
    """Return the error for a state that upstream does not take."""
    return UpstreamStateError(
        f"`upstream`, a {type(upstream).__name__}, does not go on from the state that "
        f"it had when `state` was taken: {describe(error)}. Make it as it was (a "
        'DataLoader with as many workers), or leave `state["upstream"]` out: it is '
        "then read from its start."
    )


def place() -> tuple[int, int]:
    """Return the rank of this process and the number of ranks."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


# ---- streams of Hugging Face datasets


def _streams(upstream: Any) -> Iterator[Any]:
    """Yield the streams that keep a loaded state for every later `iter`."""
    loader = as_data_loader(upstream)
    for each in (upstream, None if loader is None else loader.dataset):
        if hints.is_of(each, "datasets", "IterableDataset"):
            yield each


def _keeps_all(stream: Any) -> bool:
    """Return True without a shuffle buffer, whose content a state leaves out."""
    parts, seen = [getattr(stream, "_ex_iterable", None)], 0
    while parts:
        part = parts.pop()
        if part is None or seen > _MOST_PARTS:
            return False
        if getattr(part, "buffer_size", 1) > 1:
            return False
        seen += 1
        parts += getattr(part, "ex_iterables", ())
        parts += [part.ex_iterable] if hasattr(part, "ex_iterable") else []
    return True


_MOST_PARTS = 1000


_MANY = 2**62


class Positions:
    """The part of an epoch that completes positions of its buffer for states.

    Of an upstream without a state there is nothing to complete.

    Attributes:
        end: upstream's state at its end.
        trouble: why upstream's states are not kept.
    """

    end: UpstreamState | None = None
    trouble: str | None = None

    def at(self, locate: Callable[[], State]) -> State:
        """Return a position with what belongs to it.

        Args:
            locate: says the position, in this epoch or at the start of the next one.
        """
        return locate()

    def with_end(self, position: State) -> State:
        """Return a position at an epoch's start, with upstream's state before it."""
        return _with(position, self.end)


class Snapshots(Positions):
    """States of upstream in one epoch, for each segment the last one before it.

    What a resumed loader needs begins with a segment, so no others are taken. The
    thread that iterates upstream takes them; any other may look them up meanwhile: what
    is kept is a tuple that is replaced, never changed.

    Attributes:
        kept: the states, in upstream's order.
        end: its state when it had ended, if it goes on with another epoch from there.
        trouble: why none are kept, if so.

    Args:
        upstream: that is iterated.
        options: of the buffer: they say where segments begin.
        epoch: its number.
        base: fresh examples before those that the buffer counts.
        offset: fresh examples before those that upstream yields.
        first: its state there, if that is known.
        ahead: its items, where some were taken before they are put: upstream's state is
            then beyond them.
    """

    def __init__(
        self,
        upstream: Stateful,
        options: Options,
        epoch: int,
        base: int,
        offset: int,
        first: UpstreamState | None,
        ahead: LookAhead | None = None,
    ) -> None:
        # Weakly: the thread that iterates is the one that lets go of upstream.
        self._ahead = None if ahead is None else weakref.ref(ahead)
        self._upstream: Stateful | None = upstream
        self._start_of, capacity = segment_starts(options)
        # From the last batch handed out to the last item put: what a pass sets free
        # while batches are made ahead of it, and what the ring holds then; on a device
        # the staging ring, too, which holds a segment: what the ring has over a window.
        self._reach = 3 * capacity + options.prefetch * options.batch_size
        self._epoch = epoch
        self._base = base
        self._offset = offset
        self.kept: tuple[UpstreamState, ...] = () if first is None else (first,)
        self._segment = 0  # the first that begins at `offset` or later
        self._taken_for = -1  # the segment that the last state was taken for
        self._longest = 1  # item so far

    def passed(self, count: int) -> None:
        """Note that upstream has yielded an item of so many fresh examples."""
        if self._upstream is None or not count:
            return
        self._offset += count
        self._longest = max(self._longest, count)
        while self._start() < self._offset:
            self._segment += 1
        if self._start() - self._offset < self._longest:
            self._take()

    def until_next(self) -> int:
        """Return how many examples upstream may yield, one by one, with no state taken.

        None is while its items have been of several examples.
        """
        if self._upstream is None:
            return _MANY
        return 0 if self._longest > 1 else max(0, self._start() - self._offset - 1)

    def skip(self, count: int) -> None:
        """Note examples yielded with no state to take between them."""
        self._offset += count

    def _start(self) -> int:
        return self._base + self._start_of(self._segment)

    def _take(self) -> None:
        """Keep its state; in place of the last one, if it is for the same segment."""
        assert self._upstream is not None
        ahead = None if self._ahead is None else self._ahead()
        if ahead is not None and ahead.holds_items():
            return
        try:
            new = self._upstream.take(self._offset)
        except Exception as error:
            self._give_up(f"`upstream.state_dict()` cannot be kept: {message(error)}")
            return
        kept = self.kept
        if kept and kept[-1].encoded == new.encoded:
            self._give_up(
                f"`upstream.state_dict()` is the same after {kept[-1].offset} fresh "
                f"examples as after {self._offset}"
            )
            return
        gone = self._offset - self._reach - self._longest  # the item that is being put
        while len(kept) > 1 and (kept[1].offset or 0) <= gone:
            kept = kept[1:]
        if self._taken_for == self._segment:
            kept = kept[:-1]
        self.kept, self._taken_for = (*kept, new), self._segment

    def _give_up(self, why: str) -> None:
        self.trouble, self.kept, self._upstream = why, (), None

    def ended(self) -> None:
        """Note that upstream has ended."""
        if self._upstream is not None:
            self.end = self._upstream.take_at(None)

    def at(self, locate: Callable[[], State]) -> State:
        """Return a position with the last state of upstream before what it needs.

        Args:
            locate: says the position, in this epoch or at the start of the next one.
        """
        # Upstream and the batches go on meanwhile: what was there before a position was
        # found may be gone after, and what belongs to it may have come in between.
        seen = self.kept
        position = locate()
        if position["epoch"] != self._epoch:
            return _with(position, self.end)
        needed = self._base + position["fresh_offset"]
        before = [one for one in (*seen, *self.kept) if (one.offset or 0) <= needed]
        last = max(before, key=lambda one: one.offset or 0, default=None)
        return _with(position, last)


def _with(position: State, found: UpstreamState | None) -> State:
    return position if found is None else {**position, UPSTREAM_KEY: found}


# ---- the end of an epoch


_PATIENCE_S = 5.0
_SLICE_S = 0.002


def locate(buffer: LoaderBuffer, count: int | None) -> State:
    """Return the position of the batches handed out, once upstream has said its end.

    Where all that was put has been served, only upstream can say if the epoch is over.
    The next draw would wait for that, too; but it is not waited for without an end.

    Args:
        buffer: that is drawn from.
        count: fresh examples that an epoch has, where that is known; as the buffer
            counts them.
    """
    options = buffer.options
    # Without echoes as many draws are left as records; fewer than a batch may go.
    goes = options.drop_last and options.ratio == (1, 1)
    least = options.batch_size if goes else 1
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        is_known = True
        with contextlib.suppress(EchobufError):  # upstream has failed, or was stopped
            is_known = buffer.ready()
        at = buffer.position()
        (fresh, *_), *_ = buffer.raw_stats()
        place = at["position"]
        if place is None:
            return at
        used = at["fresh_offset"] if least == 1 else place["draws"]
        if fresh - used >= least or (count is not None and count - used >= least):
            return at
        if is_known or time.monotonic() > deadline:
            break
        time.sleep(_SLICE_S)
    return at if count is None else start_of(at["epoch"] + 1)
