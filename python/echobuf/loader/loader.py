"""`EchoLoader`: echoing around any iterable."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

from echobuf import nodes, state
from echobuf.buffer import EchoBuffer
from echobuf.errors import StateError, UpstreamError
from echobuf.loader import source
from echobuf.loader.ahead import Ahead
from echobuf.loader.epoch import Epoch
from echobuf.loader.feeder import Feeder
from echobuf.loader.plan import Plan
from echobuf.loader.run import Run
from echobuf.loader.snapshots import Snapshots, with_end, with_upstream
from echobuf.loader.told import Told
from echobuf.loader.upstream import Start, Upstream
from echobuf.options import check_bool, check_epoch
from echobuf.stats import NOTHING, Stats, make_stats
from echobuf.upstream_state import UpstreamState


class EchoLoader:
    """Echoes what an iterable yields, in shuffled NumPy batches.

    Each `iter(loader)` is one epoch: upstream is iterated afresh, on a background
    thread, into the same memory. One epoch runs at a time; beginning another ends it.

    Args:
        upstream: an iterable of examples or of batches.
        batch_size: examples in a batch. With `batched=True` it is that of the first
            batch unless told; left out with `unit="batch"`.
        window: examples (batches with `unit="batch"`) that one shuffled pass covers.
        factor: how many times each fresh example is served: a number >= 1, or "auto".
        unit: "example", or "batch" to echo the batches of upstream as they are.
        batched: whether upstream yields batches (examples stacked on axis 0); False
            unless told, True with `unit="batch"`.
        length: how many examples (batches with `unit="batch"`) upstream yields, where
            it does not say; for `len(loader)`.
        overlap_epochs: begin the next epoch's upstream as soon as all examples of this
            one have entered the window, so that short epochs do not pay for filling
            and draining it. `iter(upstream)` and its first `next` then run inside a
            `next` of this epoch; what is set between epochs (a sampler's epoch) comes
            too late for them; and one epoch more is begun than is used.
        max_factor: as for `EchoBuffer`, like the arguments that follow.
        device: see there.
        seed: see there.
        transform: see there.
        prefetch: see there.
        drop_last: see there.
        max_bytes: see there.

    Raises:
        OptionError: an argument is out of range.
    """

    def __init__(
        self,
        upstream: Iterable[Any],
        *,
        batch_size: int | None = None,
        window: int,
        factor: float | Fraction | str = "auto",
        unit: str = "example",
        batched: bool | None = None,
        length: int | None = None,
        overlap_epochs: bool = False,
        max_factor: int = 8,
        device: str = "cpu",
        seed: int = 0,
        transform: Any = None,
        prefetch: int = 0,
        drop_last: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        source.check_iterable(upstream)
        self._upstream = Upstream(upstream)
        self._told = Told(upstream)
        self._overlap_epochs = check_bool("overlap_epochs", overlap_epochs)
        self._plan = Plan(
            upstream,
            batched=batched,
            default=self._default_batched(),
            length=length,
            arguments={
                "batch_size": batch_size,
                "window": window,
                "factor": factor,
                "max_factor": max_factor,
                "unit": unit,
                "device": device,
                "seed": seed,
                "transform": transform,
                "prefetch": prefetch,
                "drop_last": drop_last,
                "max_bytes": max_bytes,
            },
        )
        self._buffer: EchoBuffer | None = None
        self._epoch: weakref.ref[Epoch] | None = None
        self._begun: Run | None = None  # until the first batch is drawn from it
        self._next_epoch = 0
        self._between = True  # at the start of `_next_epoch`, in no epoch
        self._resume: state.State | None = None
        self._base = 0  # fresh examples before those that the buffer counts
        self._feeder: Feeder | None = None
        self._ahead: Ahead | None = None
        self._snapshots: Snapshots | None = None  # of the last epoch that was begun
        self._is_warned = False

    def _default_batched(self) -> bool:
        return False

    # ---- epochs

    def __iter__(self) -> Iterator[Any]:
        """Begins an epoch.

        Raises:
            UpstreamError: upstream gives one epoch only and has been used.
            SpecError: the first item has leaves that cannot be stored.
            CapacityError: the window does not fit the memory.
        """
        run = self._take_over()
        if run is None:
            self._end_current()
            run = self._begin_next()
        loader = weakref.ref(self)
        epoch = Epoch(
            run,
            self._write,
            functools.partial(_draw_first, loader),
            functools.partial(_finish, loader),
            self._overlap(),
        )
        self._epoch = weakref.ref(epoch)
        return epoch

    def _current(self) -> Epoch | None:
        """The iterator that was made last, while somebody has it."""
        return None if self._epoch is None else self._epoch()

    def _take_over(self) -> Run | None:
        """What was begun and not drawn from, if it is the epoch that is wanted.

        It is if its iterator was dropped, or `set_epoch` has named it since.
        """
        run, current = self._begun, self._current()
        if run is None or (current is not None and self._next_epoch != run.number):
            return None
        if current is not None:
            current.give_way()
        self._next_epoch = run.number + 1
        return run

    def _end_current(self) -> None:
        current, run = self._current(), self._begun
        self._begun = None
        if current is not None:
            current.supersede()
        elif run is not None:
            run.end()
        if self._feeder is not None:
            self._feeder.join()

    def _begin_next(self) -> Run:
        resume, self._resume = self._resume, None
        number = self._next_epoch if resume is None else resume["epoch"]
        self._next_epoch = number + 1
        self._between = False
        self._base = 0 if resume is None else resume.get("base", 0)
        try:
            run = self._begin(number, resume)
        except BaseException:
            self._take_back(number, resume)
            raise
        self._begun = None if run.error is not None else run
        return run

    def _served_out(self) -> None:
        """The end of an epoch has been drawn."""
        self._between = True

    def _take_back(self, number: int, resume: state.State | None) -> None:
        """Nothing of this epoch has happened: it can be tried again."""
        self._next_epoch, self._resume, self._between = number, resume, True

    def _draw_first(self, run: Run) -> Run:
        """What an epoch that was begun as `run` is drawn from."""
        if run.given_up:
            run = self._begin_next() if self._begun is None else self._begun
        if run is self._begun:
            self._next_epoch = max(self._next_epoch, run.number + 1)
            self._begun = None
        return run

    def _give_up(self, run: Run) -> None:
        """What was begun and not drawn from is begun anew when it is drawn from."""
        self._begun = None
        run.given_up = True
        run.end()
        self._take_back(run.number, run.resume)

    def _begin(self, number: int, resume: state.State | None) -> Run:
        ahead = self._wanted_ahead(number, resume)
        upstream = None if resume is None else resume.get("upstream")
        start = self._start(upstream) if ahead is None else ahead.start
        if start.error is not None:
            self._take_back(number, resume)
            return Run(number, resume, cause=start.error)
        if start.items is None:
            self._begin_empty(number, resume)
            return Run(number, resume)
        if ahead is None or not ahead.is_fed:
            buffer = self._open(start.first, number, resume)
            snapshots = self._watch(buffer, start, number, resume)
            feeder = self._feed(buffer, start, resume, snapshots)
        else:
            buffer = self._go_ahead(number)
            feeder, snapshots = ahead.take(), ahead.snapshots
        self._feeder, self._snapshots = feeder, snapshots
        return Run(number, resume, buffer, feeder, snapshots=snapshots)

    def _start(self, state: UpstreamState | None = None) -> Start:
        self._upstream.check_fresh()
        return self._upstream.begin(state)

    def _watch(
        self, buffer: EchoBuffer, start: Start, number: int, resume: state.State | None
    ) -> Snapshots | None:
        """What takes upstream's state in an epoch, if it has one."""
        upstream = self._upstream.stateful
        if upstream is None:
            return None
        base = 0 if resume is None else resume.get("base", 0)
        return Snapshots(
            upstream, buffer._options, number, base, start.offset, start.state
        )

    def _feed(
        self,
        buffer: EchoBuffer,
        start: Start,
        resume: state.State | None,
        snapshots: Snapshots | None,
    ) -> Feeder:
        assert start.items is not None
        needed = 0
        if resume is not None:
            needed = resume.get("base", 0) + resume["fresh_offset"]
        return Feeder(
            buffer,
            start.items,
            start.first,
            batched=self._plan.batched and not self._plan.options.ragged,
            read=self._reader(),
            skipped=needed - start.offset,
            snapshots=snapshots,
        )

    # ---- the next epoch's upstream, while this one is served out

    def _overlap(self) -> Callable[[], bool] | None:
        if not self._overlap_epochs:
            return None
        return functools.partial(_begin_ahead, weakref.ref(self))

    def _begin_ahead(self) -> bool:
        """Begins the next epoch's upstream once it is time; True when that is done."""
        buffer = self._buffer
        if self._ahead is not None or buffer is None or not buffer._draining():
            return self._ahead is not None
        number = self._next_epoch
        self._told.tell_next(number)
        try:
            start = self._start()
        except UpstreamError:
            return True  # the next `iter` says so
        feeder = snapshots = None
        if start.items is not None and buffer._open_ahead(number):
            snapshots = self._watch(buffer, start, number, None)
            feeder = self._feed(buffer, start, None, snapshots)
        self._ahead = Ahead(number, start, feeder, snapshots)
        return True

    def _wanted_ahead(self, number: int, resume: state.State | None) -> Ahead | None:
        """What was begun ahead, if it is this epoch; ended if it is another."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or (ahead.number == number and resume is None):
            return ahead
        ahead.cancel()
        return None

    def _cancel_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.cancel()

    def _go_ahead(self, number: int) -> EchoBuffer:
        assert self._buffer is not None
        self._buffer._go_ahead(number)
        return self._buffer

    def _begin_empty(self, number: int, resume: state.State | None) -> None:
        if resume is not None and resume["position"] is not None:
            raise StateError(
                "upstream yields nothing, but `state` was taken in the middle of an "
                "epoch; give the upstream that it was taken with."
            )
        if self._buffer is not None:
            self._buffer.reset(number)
            self._buffer.close()

    def _open(self, first: Any, number: int, resume: state.State | None) -> EchoBuffer:
        if self._buffer is None:
            self._buffer = self._make_buffer(self._read_first(first))
        self._buffer.reset(number)
        if resume is not None:
            state.check_arguments(resume["arguments"], self._buffer._arguments)
            self._buffer._restore(resume)
        return self._buffer

    def _make_buffer(self, first: Any) -> EchoBuffer:
        return self._plan.make_buffer(first)

    # ---- what an adapter to a framework changes

    def _read_first(self, item: Any) -> Any:
        """The first item, from which the spec is inferred."""
        nodes.learn(item)
        return item

    def _reader(self) -> Callable[[Any], Any]:
        """What brings items into the form that the buffer takes; holds no loader."""
        return _as_it_is

    _write: Any = None

    # ---- length, state

    def __len__(self) -> int:
        """The number of batches in an epoch.

        Raises:
            TypeError: upstream's length is not known, or `factor` is "auto".
        """
        return self._plan.count_batches()

    def set_epoch(self, epoch: int) -> None:
        """Fixes the number, and so the order, of the epoch that the next `iter` begins.

        It is passed on to what has `set_epoch` upstream: the iterable itself, or the
        samplers and the dataset of a DataLoader. An iterator that has given no batch
        yet becomes that epoch, too: some trainers make it first.

        A loaded state of that epoch stays loaded; one of another epoch is given up.
        """
        number = check_epoch(epoch)
        changed = self._told.tell(number)
        if changed:
            self._cancel_ahead()
        run = self._begun
        if run is not None and (changed or run.number != number):
            self._give_up(run)
        if self._resume is not None and self._resume["epoch"] != number:
            self._resume = None
        self._next_epoch = number
        if self._begun is None and self._current() is None:
            self._between = True

    def stats(self) -> Stats:
        """What has been done in the current epoch, or the last one."""
        if self._buffer is None:
            return make_stats(NOTHING)
        return self._buffer.stats()

    def state_dict(self) -> dict[str, Any]:
        """Where the batches handed out so far have come to, for `json` to keep.

        It holds the state of upstream, if that has one: `state_dict` and
        `load_state_dict`. A warning says so once where it cannot be kept.
        """
        sealed = self._seal(self._sealed_arguments(), self._position())
        trouble = None if self._snapshots is None else self._snapshots.trouble
        if trouble is not None and not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"{trouble}; `state` is without it, and a loader that goes on from it "
                "reads upstream from its start.",
                stacklevel=2,
            )
        return sealed

    def _position(self) -> state.State:
        if self._resume is not None:
            return self._resume
        if self._between or self._buffer is None:
            return with_end(state.start_of(self._next_epoch), self._snapshots)
        at = self._buffer._position()
        if at["epoch"] == self._buffer._epoch:  # else it is the start of the next one
            at["base"] = self._base
        return with_upstream(at, self._snapshots)

    def _seal(self, arguments: state.State, position: state.State) -> state.State:
        return state.seal(arguments, position)

    def _unseal(self, sealed: Any) -> state.State:
        return state.unseal(sealed, self._plan.sealed(), also=("base", "upstream"))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The next `iter` goes on where a loader with the same arguments was.

        Upstream must yield the same items in the same order as it did then. If it has
        a state, it goes on at the first one that is needed; else it is iterated from
        its start, and what is not needed is skipped.

        Raises:
            StateError: the state is damaged, or of other arguments, or tells of the
                state of an upstream that has none here.
        """
        position = self._upstream.check_state(self._unseal(state_dict))
        self._end_current()
        self._cancel_ahead()
        self._next_epoch = position["epoch"]
        self._resume = position
        self._between = True

    def _sealed_arguments(self) -> state.State:
        if self._resume is not None:
            return dict(self._resume["arguments"])
        return self._plan.sealed()


def _as_it_is(item: Any) -> Any:
    return item


def _begin_ahead(loader: weakref.ref[EchoLoader]) -> bool:
    """True when there is nothing more to begin."""
    alive = loader()
    return True if alive is None else alive._begin_ahead()


def _draw_first(loader: weakref.ref[EchoLoader], run: Run) -> Run:
    """A loader that is gone has nothing to say."""
    alive = loader()
    return run if alive is None else alive._draw_first(run)


def _finish(loader: weakref.ref[EchoLoader]) -> None:
    """Notes that an epoch was served to its end."""
    alive = loader()
    if alive is not None:
        alive._served_out()
