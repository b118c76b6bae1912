"""`EchoLoader`: echoing around any iterable."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

from echobuf import _core, state
from echobuf.buffer import EchoBuffer
from echobuf.errors import OptionError, StateError
from echobuf.loader import source
from echobuf.loader.epoch import Epoch
from echobuf.loader.feeder import Feeder
from echobuf.loader.length import count_units
from echobuf.options import Options, check_epoch, check_int, check_options
from echobuf.stats import Stats, make_stats


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
        max_factor: int = 8,
        device: str = "cpu",
        seed: int = 0,
        transform: None = None,
        prefetch: int = 0,
        drop_last: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        source.check_iterable(upstream)
        self._upstream = upstream
        self._batched = self._check_batched(batched, unit)
        self._length = None if length is None else check_int("length", length, 0, None)
        if batch_size is None and unit == "example" and self._batched:
            batch_size = source.loader_batch_size(upstream)
        self._arguments: dict[str, Any] = {
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
        }
        self._options: Options = self._check_options()
        self._buffer: EchoBuffer | None = None
        self._epoch: weakref.ref[Epoch] | None = None
        self._next_epoch = 0
        self._between = True  # at the start of `_next_epoch`, in no epoch
        self._resume: state.State | None = None
        self._used_up = False
        self._iterator: weakref.ref[Any] | None = None  # upstream's, of the last epoch
        self._feeder: Feeder | None = None

    def _default_batched(self) -> bool:
        return False

    def _check_batched(self, batched: Any, unit: Any) -> bool:
        if batched is None:
            return unit == "batch" or self._default_batched()
        if batched is not True and batched is not False:
            raise OptionError(f"`batched` is {batched!r}; it must be True or False.")
        if unit == "batch" and not batched:
            raise OptionError(
                "`batched` is False; with unit='batch' upstream yields the batches "
                "that are echoed, so it must be True or left out."
            )
        return batched

    def _check_options(self) -> Options:
        arguments = dict(self._arguments)
        if arguments["batch_size"] is None and self._batched:
            # Known with the first batch; until then any that is allowed stands in.
            arguments["batch_size"] = None if arguments["unit"] == "batch" else 1
        return check_options(**arguments)

    # ---- epochs

    def __iter__(self) -> Iterator[Any]:
        """Begins an epoch.

        Raises:
            UpstreamError: upstream gives one epoch only and has been used.
            SpecError: the first item has leaves that cannot be stored.
            CapacityError: the window does not fit the memory.
        """
        self._end_current()
        if self._used_up:
            raise source.one_shot_error(self._upstream)
        resume, self._resume = self._resume, None
        number = self._next_epoch if resume is None else resume["epoch"]
        self._next_epoch = number + 1
        self._between = False
        try:
            epoch = self._begin(number, resume)
        except BaseException:
            self._take_back(number, resume)
            raise
        self._epoch = weakref.ref(epoch)
        return epoch

    def _take_back(self, number: int, resume: state.State | None) -> None:
        """Nothing of this epoch has happened: it can be tried again."""
        self._next_epoch, self._resume, self._between = number, resume, True

    def _end_current(self) -> None:
        current = None if self._epoch is None else self._epoch()
        if current is not None:
            current.supersede()
        elif self._feeder is not None:
            self._feeder.join()

    def _begin(self, number: int, resume: state.State | None) -> Epoch:
        finished = functools.partial(_finish, weakref.ref(self))
        try:
            items = iter(self._upstream)
            repeated = self._is_repeated(items)
            first = None if repeated else next(items)
        except StopIteration:
            return self._begin_empty(number, resume)
        except Exception as error:
            self._take_back(number, resume)
            return Epoch(None, None, None, finished, error)
        if repeated:
            raise source.one_shot_error(self._upstream)
        buffer = self._open(first, number, resume)
        self._feeder = Feeder(
            buffer,
            items,
            first,
            batched=self._batched and not self._options.ragged,
            read=self._reader(),
            skipped=0 if resume is None else resume["fresh_offset"],
        )
        return Epoch(buffer, self._feeder, self._write, finished)

    def _is_repeated(self, items: Iterator[Any]) -> bool:
        """Whether upstream gave the last epoch's iterator again. Notes this one's."""
        last = None if self._iterator is None else self._iterator()
        if last is items and source.as_data_loader(self._upstream) is None:
            return True
        self._used_up = items is self._upstream
        try:
            self._iterator = weakref.ref(items)
        except TypeError:  # built-in iterators; those of containers are made anew
            self._iterator = None
        return False

    def _begin_empty(self, number: int, resume: state.State | None) -> Epoch:
        if resume is not None and resume["position"] is not None:
            raise StateError(
                "upstream yields nothing, but `state` was taken in the middle of an "
                "epoch; give the upstream that it was taken with."
            )
        if self._buffer is not None:
            self._buffer.reset(number)
            self._buffer.close()
        return Epoch(None, None, None, functools.partial(_finish, weakref.ref(self)))

    def _open(self, first: Any, number: int, resume: state.State | None) -> EchoBuffer:
        if self._buffer is None:
            self._buffer = self._make_buffer(self._read_first(first))
        self._buffer.reset(number)
        if resume is not None:
            state.check_arguments(resume["arguments"], self._buffer._arguments)
            self._buffer._restore(resume)
        return self._buffer

    def _make_buffer(self, first: Any) -> EchoBuffer:
        if self._options.ragged:
            spec = source.infer_whole(first, source.loader_batch_size(self._upstream))
        elif self._batched:
            spec, length = source.infer_example(first)
            if self._arguments["batch_size"] is None:
                self._arguments["batch_size"] = length
        else:
            spec = first
        buffer = EchoBuffer(spec, **self._arguments)
        self._options = buffer._options
        return buffer

    # ---- what an adapter to a framework changes

    def _read_first(self, item: Any) -> Any:
        """The first item, from which the spec is inferred."""
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
        options = self._options
        if options.ratio is None:
            raise TypeError("with factor='auto' the number of batches is not known.")
        if not options.ragged and self._arguments["batch_size"] is None:
            raise TypeError("`batch_size` is known with the first batch; give it.")
        units = self._length
        if units is None:
            units = count_units(
                self._upstream, batched=self._batched, whole=options.ragged
            )
        draws = _core.fixed_total_draws(options.window, *options.ratio, units)
        rest = 0 if options.drop_last else options.batch_size - 1
        return (draws + rest) // options.batch_size

    def set_epoch(self, epoch: int) -> None:
        """Fixes the number, and so the order, of the epoch that the next `iter` begins.

        A loaded state of that epoch stays loaded; one of another epoch is given up.
        """
        number = check_epoch(epoch)
        if self._resume is not None and self._resume["epoch"] != number:
            self._resume = None
        self._next_epoch = number
        if self._epoch is None or self._epoch() is None:
            self._between = True

    def stats(self) -> Stats:
        """What has been done in the current epoch, or the last one."""
        if self._buffer is None:
            return make_stats((0, 0, 0, 0, 0, 0.0, 0.0))
        return self._buffer.stats()

    def state_dict(self) -> dict[str, Any]:
        """Where the batches handed out so far have come to, for `json` to keep."""
        arguments = self._sealed_arguments()
        if self._resume is not None:
            return state.seal(arguments, self._resume)
        if self._between or self._buffer is None:
            return state.seal(arguments, state.start_of(self._next_epoch))
        return self._buffer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The next `iter` goes on where a loader with the same arguments was.

        Upstream is iterated from its start, and what is not needed is skipped; it must
        yield the same items in the same order as it did then.

        Raises:
            StateError: the state is damaged, or of other arguments.
        """
        position = state.unseal(state_dict, self._own_arguments())
        self._end_current()
        self._next_epoch = position["epoch"]
        self._resume = position
        self._between = True

    def _sealed_arguments(self) -> state.State:
        if self._resume is not None:
            return dict(self._resume["arguments"])
        return self._own_arguments()

    def _own_arguments(self) -> state.State:
        if self._buffer is not None:
            return self._buffer._arguments
        arguments = state.arguments_of(self._options, None)
        if self._arguments["batch_size"] is None and not self._options.ragged:
            arguments["batch_size"] = None
        return arguments


def _as_it_is(item: Any) -> Any:
    return item


def _finish(loader: weakref.ref[EchoLoader]) -> None:
    """Notes that an epoch was served to its end."""
    alive = loader()
    if alive is not None:
        alive._between = True
