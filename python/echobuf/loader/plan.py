"""A loader's arguments, checked, and the number of batches that follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from echobuf import state
from echobuf._engine.carry import Carrier, find_carrier
from echobuf.arguments import BUFFER, check_factor, check_int
from echobuf.errors import OptionError
from echobuf.loader import items, source
from echobuf.loader.lengths import (
    EpochLength,
    FirstBatch,
    count_units,
    warn_of_count,
)
from echobuf.loader.ragged import BatchDecoder, RaggedRequest, find_batch_decoder
from echobuf.loader_buffer import LoaderBuffer
from echobuf.options import Options, check_options, shared_of
from echobuf.spec import make_spec

_DEFAULT_BATCHES = 32  # in a window, where nothing else is said


class Plan:
    """The arguments of a loader, checked.

    Args:
        upstream: an iterable of examples or of batches.
        default: True if `upstream` yields batches by its kind.
        arguments: those of `EchoLoader`; `batch_size` may still be unknown, and
            `window`, which then follows from it.
        make: what makes a buffer of them.

    Attributes:
        batched: whether items are batches.
        stacked: whether items hold examples stacked on axis 0, each of them a record.
        options: the arguments, checked as far as they are known.
        arguments: those of `EchoBuffer`, as far as they are known.
        length: of upstream, as given.
        ragged: the leaves that are to be ragged; None where none are.
        see_first: begins the first epoch, where a length is known with its first batch.
    """

    def __init__(
        self,
        upstream: Iterable[Any],
        *,
        default: bool,
        arguments: Mapping[str, Any],
        make: Callable[..., LoaderBuffer] = LoaderBuffer,
    ) -> None:
        self._upstream = upstream
        self._make = make
        self.length: int | None = arguments["length"]
        self._carry: bool = arguments["carry"]
        unit, batched = arguments["unit"], arguments["batched"]
        arguments = self.arguments = shared_of(arguments, BUFFER)
        request = RaggedRequest(arguments["ragged"])
        arguments["ragged"] = request.form or "packed"
        self.batched = _check_batched(batched, unit, default)
        self.stacked = self.batched and unit == "example"
        if self._lacks_size() and arguments["pack_to"] is not None:
            raise OptionError(
                f"`pack_to` is {arguments['pack_to']!r} and `batch_size` is None; give "
                "`batch_size`, the number of rows in a batch."
            )
        given = (arguments["batch_size"], arguments["max_rows"])
        self._is_size_given = any(value is not None for value in given)
        self._first_batch = FirstBatch(
            upstream, self.stacked, self.length, is_size_given=self._is_size_given
        )
        self._is_window_given = arguments["window"] is not None
        if self._lacks_size() and self.stacked:
            arguments["batch_size"] = source.loader_batch_size(upstream)
        self._settle_window()
        self.options: Options = self._check()
        is_asked = request.form is not None or bool(self.options.for_rows)
        self.ragged: RaggedRequest | None = request if is_asked else None
        if is_asked:
            _check_ragged(arguments, self.options)
        self._buffer: LoaderBuffer | None = None
        self._is_warned = False
        self.see_first: Callable[[], None] = lambda: None

    def _lacks_size(self) -> bool:
        """Return True while the number of records in a batch is not known."""
        return self._size() is None and self.arguments["max_rows"] is None

    def _size(self) -> Any:
        """Return the number of records in a batch, as far as it is known."""
        if self.batched and not self.stacked:
            return 1  # the batch itself
        return self.arguments["batch_size"]

    def _check(self) -> Options:
        arguments = dict(self.arguments)
        unknown = self._lacks_size()
        if unknown and not self.batched:
            raise OptionError(
                "`batch_size` is None; it must be an int >= 1, the number of examples "
                "in a batch. If `upstream` yields batches, say batched=True instead."
            )
        if unknown:
            # Known with the first batch; until then any that is allowed stands in.
            arguments["batch_size"] = 1
        if arguments["window"] is None:
            arguments["window"] = _default_window(1, arguments["factor"])
        return check_options(**arguments)

    def _settle_window(self) -> None:
        """Choose the window, where it was left out and the batch size is known."""
        arguments, size = self.arguments, self._size()
        by_rows = arguments["pack_to"] is not None  # of which the window has no number
        if arguments["window"] is None and size is not None and not by_rows:
            arguments["window"] = _default_window(size, arguments["factor"])

    def batch_decoder(self, first: Any) -> BatchDecoder | None:
        """Return the decoder of batches with ragged leaves; None where none are.

        Raises:
            OptionError: `ragged` is not like a batch.
        """
        if self.ragged is None or not self.batched:
            return None
        size = source.loader_batch_size(self._upstream)
        if size is None:
            size = self.arguments["batch_size"]
        return find_batch_decoder(first, size, self.ragged.flags_of_batch(first))

    def carrier(self, first: Any) -> Carrier | None:
        """Return what takes leaves that are no arrays out of items like the first one.

        Args:
            first: the first item, decoded.
        """
        carrier = None
        if self._carry:
            is_ragged = self.ragged is not None
            carrier = find_carrier(first, batched=self.batched, ragged=is_ragged)
        if carrier is not None and self.options.packs:
            raise OptionError(
                f"`pack_to` is {self.options.pack_to}, and rows of several examples "
                f"carry no objects yet: leave out {carrier.describe()}, or `pack_to`."
            )
        return carrier

    def most_ahead(self) -> int:
        """Return how many items may be looked at before any are put: of a segment."""
        factor = self.options.factor
        segments = 4 if factor is None else math.ceil(factor)
        return min(items.MOST_AHEAD, self.options.window // segments)

    def make_buffer(
        self,
        first: Any,
        more: Iterator[Any],
        before: int | None = None,
        *,
        carries: bool = False,
    ) -> LoaderBuffer:
        """Return the buffer for items like the first one of upstream.

        Args:
            first: the first item.
            more: the items after it, if leaves of examples may be ragged.
            before: the batch size in the state that upstream goes on from; the first
                batch may then be the last one of its epoch. None at an epoch's start.
            carries: None in it stands for a leaf that is carried.
        """
        self._first_batch.before = before
        spec = self._infer(first, more)
        self._buffer = self._make(spec, carries=carries, **self.arguments)
        self.options = self._buffer.options
        return self._buffer

    def _infer(self, first: Any, more: Iterator[Any]) -> Any:
        """Return the spec of a record, from the first items."""
        if self.batched:
            spec = self._infer_batched(first)
        elif self.ragged is None:
            items.check_example(first)
            spec = first
        else:
            flags = self.ragged.flags_of_example(first, all_ragged=self.options.packs)
            spec = items.infer_ragged_example(first, more, flags)
        return spec if self.ragged is None else self._check_any(spec)

    def _infer_batched(self, first: Any) -> Any:
        if self.ragged is None:
            self._first_batch.refuse_lists(first)
        spec, length = items.infer_batch(first)
        if self.stacked:
            self._learn_size(length)
            return spec
        most = source.loader_batch_size(self._upstream) or 1  # the first may be short
        return items.as_whole(spec, max(length, most))

    def _check_any(self, spec: Any) -> Any:
        """Return the spec of a record; raise `OptionError` if no leaf is ragged."""
        if not make_spec(spec).is_ragged:
            if self.batched:
                raise OptionError(
                    f"{self.options.for_rows}, but in the first batch no leaf "
                    "varies in length: all are taken for arrays that are stacked. "
                    "Name those that do, `ragged={'tokens': 'packed', 'label': None}`, "
                    "in a pytree like a batch, and yield a list of arrays, one for "
                    "each example, at each of them (a DataLoader: `collate_fn=list`), "
                    "or an array padded to the longest of its batch; or leave the "
                    "arguments for ragged leaves out."
                )
            raise OptionError(
                f"{self.options.for_rows}, but in what upstream yields first no "
                "leaf varies in length on axis 0. Name those that do, "
                "`ragged={'tokens': 'packed', 'label': None}`, in a pytree like an "
                "example (`ragged='packed'` where that is one array); or leave the "
                "arguments for ragged leaves out."
            )
        return spec

    def _learn_size(self, length: int) -> None:
        """Take the length of the first batch for that of all, where none was given."""
        arguments = self.arguments
        size = self._first_batch.note(length)
        if size is None and self._lacks_size():
            size = max(length, self._first_batch.before or 0)
        if size is not None:
            arguments["batch_size"] = size
            if not self._is_window_given:
                arguments["window"] = None
            self._settle_window()

    @property
    def batch_size(self) -> int | None:
        """Examples in a batch; None until the first batch says it."""
        size = self.arguments["batch_size"]
        if self.options.max_rows is not None:
            return None
        if self.batched and not self.stacked:
            return source.loader_batch_size(self._upstream)
        return None if size is None else self.options.batch_size

    @property
    def window(self) -> int | None:
        """The window; None until the first batch says it."""
        return None if self.arguments["window"] is None else self.options.window

    def epoch_length(self) -> EpochLength:
        """Return what the number of batches in each epoch follows from.

        Raises:
            TypeError: upstream's length is not known, or `factor` is "auto".
        """
        options = self.options
        if options.ratio is None:
            raise TypeError(
                "with factor='auto' the number of batches is known only when they are "
                "served; `max_batches()` is an upper bound. Or give a number as "
                "`factor`."
            )
        return self._length_at(options.ratio)

    def fresh_length(self) -> EpochLength:
        """Return the same without echoing: each fresh example is served once.

        Raises:
            TypeError: upstream's length is not known.
        """
        return self._length_at((1, 1))

    def _length_at(self, ratio: tuple[int, int]) -> EpochLength:
        if self._depends_on_lengths(ratio):
            raise TypeError(
                "with `max_rows` or `pack_to`, or a fractional factor and "
                "`payload_bytes`, the number of batches follows from the lengths of "
                "all examples, and is known only when they are served; "
                "`max_batches()` is an upper bound."
            )
        units = self._count_units()
        options = self.options  # the first batch may have changed them
        return EpochLength(
            units,
            options.window,
            *ratio,
            options.seed,
            options.batch_size,
            options.drop_last,
        )

    def _depends_on_lengths(self, ratio: tuple[int, int]) -> bool:
        """Return True if the number of batches follows from the lengths of examples."""
        if self.options.max_rows is not None or self.options.packs:
            return True
        return self.ragged is not None and ratio[1] != 1

    def max_batches(self) -> int:
        """Return the most batches that an epoch can have.

        Raises:
            TypeError: upstream's length is not known.
        """
        options = self.options
        most = options.max_factor
        if options.ratio is not None and options.factor is not None:
            if not self._depends_on_lengths(options.ratio):
                return self.epoch_length().count_most()
            most = math.ceil(options.factor)
        draws = self._count_units() * most  # a row of `pack_to` has one at least
        size = self.options.batch_size  # as the first batch says
        return (draws + (0 if options.drop_last else size - 1)) // size

    def _count_units(self) -> int:
        """Count the fresh examples (batches with `unit="batch"`) of an epoch."""
        if self._lacks_size():
            raise TypeError("`batch_size` is known with the first batch; give it.")
        if self.length is not None:
            self._first_batch.check(self.see_first)
            return self.length
        count = count_units(self._upstream, stacked=self.stacked)
        if count:
            self._first_batch.check(self.see_first)
        return count

    def awaits_first(self) -> bool:
        """Return True while the number of examples is known with the first batch."""
        return self._first_batch.is_awaited

    def check_count(self, fresh: int) -> None:
        """Warn once where an epoch had another number of fresh examples than said.

        Args:
            fresh: examples (batches with `unit="batch"`) of a whole epoch.
        """
        said = self.count()
        if said is not None and fresh != said:
            self._is_warned = True
            is_given = self.length is not None
            warn_of_count(said, fresh, is_given=is_given, what=self.options.noun)

    def count(self) -> int | None:
        """Return the number of fresh examples in an epoch, if known and not refuted."""
        try:
            return None if self._is_warned else self._count_units()
        except TypeError:
            return None

    def sealed(self) -> state.State:
        """Return the arguments as they are kept in a state."""
        if self._buffer is not None:
            return self._buffer.arguments
        arguments = state.arguments_of(self.options, None, None, None)
        is_awaited = self._first_batch.is_awaited
        is_learnt = is_awaited and not self._is_size_given
        if self._lacks_size() or is_learnt:
            arguments["batch_size"] = None
        is_learnt = is_awaited and not self._is_window_given
        if self.arguments["window"] is None or is_learnt:
            arguments["window"] = None
        return arguments


def _check_ragged(arguments: dict[str, Any], options: Options) -> None:
    """Check the arguments of a loader some of whose leaves are to be ragged."""
    if options.payload_bytes is None and options.pack_to is None:
        raise OptionError(
            "`payload_bytes` is None, and examples are to have ragged leaves; give "
            "`payload_bytes`, the bytes of all ragged leaves in the window. (An "
            "`EchoBuffer` may have `Field(..., max_length=)` in place of it.)"
        )
    by_rows = options.max_rows is not None or options.packs
    if by_rows and arguments["window"] is None:
        raise OptionError(
            "`window` is None; with `max_rows` or `pack_to` it must be an int >= 1, "
            "the number of examples in the window."
        )


def _check_batched(batched: bool | None, unit: Any, default: bool) -> bool:
    if batched is None:
        return unit == "batch" or default
    if unit == "batch" and not batched:
        raise OptionError(
            "`batched` is False; with unit='batch' upstream yields the batches "
            "that are echoed, so it must be True or left out."
        )
    return batched


def _default_window(batch_size: Any, factor: Any) -> int:
    """Return 32 batches, or the next multiple of ceil(factor) batches.

    With such a multiple no batch of the steady state holds an example twice.
    """
    ratio = check_factor(factor)
    step = 1 if ratio is None else math.ceil(ratio)
    batches = -(-_DEFAULT_BATCHES // step) * step
    return check_int("batch_size", batch_size, 1, None) * batches
