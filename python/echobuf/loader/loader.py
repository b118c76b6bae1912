"""`EchoLoader`: echoing around any iterable."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from echobuf import state
from echobuf.loader.adapter import Adapter
from echobuf.loader.arranging import arrange
from echobuf.loader.epoch import Epoch
from echobuf.loader.plan import Plan
from echobuf.loader.run import Run
from echobuf.loader.snapshots import with_end, with_upstream
from echobuf.loader.starter import Starter
from echobuf.loader.told import Told
from echobuf.loader.upstream import Upstream
from echobuf.options import check_bool, check_epoch
from echobuf.stats import NOTHING, Stats, make_stats
from echobuf.workers.settings import check_workers

if TYPE_CHECKING:
    pass


class EchoLoader:
    """Echoes what an iterable yields, in shuffled NumPy batches.

    Each `iter(loader)` is one epoch: upstream is iterated afresh, on a background
    thread, into the same memory. One epoch runs at a time; beginning another ends it.

    Args:
        upstream: an iterable of examples or of batches; or a `ray.data.Dataset`, or
            one trainer's shard of it, which is read in batches of `batch_size`.
        batch_size: examples in a batch. With `batched=True` it is that of the first
            batch unless told; left out with `unit="batch"`.
        window: examples (batches with `unit="batch"`) that one shuffled pass covers.
        factor: how many times each fresh example is served: a number >= 1, or "auto".
        unit: "example", or "batch" to echo the batches of upstream as they are.
        batched: whether upstream yields batches (examples stacked on axis 0); False
            unless told, True with `unit="batch"` and for Ray.
        length: how many examples (batches with `unit="batch"`) upstream yields, where
            it does not say; for `len(loader)`.
        overlap_epochs: begin the next epoch's upstream as soon as all examples of this
            one have entered the window, so that short epochs do not pay for filling
            and draining it. `iter(upstream)` and its first `next` then run inside a
            `next` of this epoch; what is set between epochs (a sampler's epoch) comes
            too late for them; and one epoch more is begun than is used.
        sampler: for a map-style `upstream` (`__getitem__`, `__len__`): the indices of
            an epoch's examples, in order, iterated anew in each epoch.
        num_workers: processes that make examples of a map-style `upstream` and write
            them straight into the ring, in shared memory. The order is the sampler's
            whatever their number. 0: examples are made on a thread of this process.
        multiprocessing_context: how they are started: "spawn" (the default),
            "forkserver", or such a context.
        worker_init_fn: called in each with its number, before its first example.
        max_restarts: workers that may die in an epoch and be started again, with the
            examples that they had not finished; one more is an `UpstreamError`.
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

    def __init__(  # noqa: PLR0913 - what users may say of a loader
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
        sampler: Iterable[int] | None = None,
        num_workers: int = 0,
        multiprocessing_context: Any = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        max_restarts: int = 3,
        max_factor: int = 8,
        device: str = "cpu",
        seed: int = 0,
        transform: Any = None,
        prefetch: int = 0,
        drop_last: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        adapter = self._adapter()
        workers = check_workers(
            num_workers,
            multiprocessing_context,
            worker_init_fn,
            max_restarts,
            unit=unit,
            batched=batched,
        )
        arranged = arrange(
            upstream,
            adapter,
            workers,
            sampler=sampler,
            batch_size=batch_size,
            batched=batched,
            unit=unit,
            overlap_epochs=overlap_epochs,
        )
        upstream = arranged.upstream
        self._upstream = Upstream(upstream)
        self._told = Told(upstream)
        self._overlap_epochs = check_bool("overlap_epochs", overlap_epochs)
        self._plan = Plan(
            upstream,
            batched=batched,
            default=adapter.yields_batches(upstream),
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
            make=arranged.make,
        )
        self._starter = Starter(
            self._upstream, self._told, self._plan, adapter, arranged.workforce
        )
        self._epoch: weakref.ref[Epoch] | None = None
        self._begun: Run | None = None  # until the first batch is drawn from it
        self._next_epoch = 0
        self._between = True  # at the start of `_next_epoch`, in no epoch
        self._resume: state.State | None = None
        self._base = 0  # fresh examples before those that the buffer counts
        self._is_warned = False

    def _adapter(self) -> Adapter:
        """To the framework that the batches are for."""
        return Adapter()

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
        self._starter.join()

    def _begin_next(self) -> Run:
        resume, self._resume = self._resume, None
        number = self._next_epoch if resume is None else resume["epoch"]
        self._next_epoch = number + 1
        self._between = False
        self._base = 0 if resume is None else resume.get("base", 0)
        try:
            run = self._starter.begin(number, resume)
        except BaseException:
            self._take_back(number, resume)
            raise
        if run.error is None:
            self._begun = run
        else:
            self._take_back(number, resume)
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

    def _overlap(self) -> Callable[[], bool] | None:
        if not self._overlap_epochs:
            return None
        return functools.partial(_begin_ahead, weakref.ref(self))

    def _begin_ahead(self) -> bool:
        return self._starter.begin_ahead(self._next_epoch)

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
            self._starter.cancel_ahead()
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
        buffer = self._starter.buffer
        return make_stats(NOTHING) if buffer is None else buffer.stats()

    def state_dict(self) -> dict[str, Any]:
        """Where the batches handed out so far have come to, for `json` to keep.

        It holds the state of upstream, if that has one: `state_dict` and
        `load_state_dict`. A warning says so once where it cannot be kept.
        """
        sealed = self._seal(self._sealed_arguments(), self._position())
        snapshots = self._starter.snapshots
        trouble = None if snapshots is None else snapshots.trouble
        if trouble is not None and not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"{trouble}; `state` is without it, and a loader that goes on from it "
                "reads upstream from its start.",
                stacklevel=2,
            )
        return sealed

    def _position(self) -> state.State:
        resume = self._resume
        if resume is not None:
            return resume
        snapshots = self._starter.snapshots  # before: they may be of the next epoch
        if self._between or self._starter.buffer is None:
            return with_end(state.start_of(self._next_epoch), snapshots)
        return with_upstream(self._locate, snapshots)

    def _locate(self) -> state.State:
        buffer = self._starter.buffer
        assert buffer is not None
        at = buffer._position()
        if at["epoch"] == buffer._epoch:  # else it is the start of the next one
            at["base"] = self._base
        return at

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
        self._starter.cancel_ahead()
        self._next_epoch = position["epoch"]
        self._resume = position
        self._between = True

    def _sealed_arguments(self) -> state.State:
        if self._resume is not None:
            return dict(self._resume["arguments"])
        return self._plan.sealed()


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
