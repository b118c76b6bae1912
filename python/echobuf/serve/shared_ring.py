"""The ring of a server, in memory or a file, and upstream, which is put into it."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from echobuf import _core, capacity, nodes
from echobuf._engine import ragged
from echobuf._engine.arrays import put_tree as put_arrays
from echobuf._engine.carry import Carrier, find_carrier
from echobuf._engine.termination import put_error
from echobuf.errors import (
    CapacityError,
    ClosedError,
    OptionError,
    UpstreamError,
    describe,
)
from echobuf.loader import source
from echobuf.loader.items import Adapter, refuse_on_device
from echobuf.loader.lengths import count_units
from echobuf.loader.look_ahead import LookAhead
from echobuf.loader.ragged import BatchDecoder
from echobuf.loader.readers import (
    FeedRequest,
    Published,
    ThreadReader,
    choose_reader,
    is_attached,
)
from echobuf.loader.thread import UpstreamThread
from echobuf.loader.upstream import (
    Upstream,
    UpstreamStart,
    begin_upstream,
)
from echobuf.options import Options
from echobuf.resources import Signal, enough
from echobuf.serve.protocol import ExampleSpec, fixed_tree, read_spec
from echobuf.serve.ragged import RaggedServing, most_ahead
from echobuf.spec import Spec, make_structure
from echobuf.workers.object_log import ObjectLog
from echobuf.workers.settings import WorkerSettings

_SLICE_S = 0.25  # of a wait for the end of an epoch


class SharedRing:
    """The ring of a server, with the methods of a buffer that a `Feeder` calls.

    Attributes:
        log: has what examples carry, at their positions in the ring; None where they
            carry nothing.
    """

    def __init__(
        self,
        spec: ExampleSpec,
        core: _core.SharedRing,
        options: Options,
        log: ObjectLog | None,
    ) -> None:
        self.core = self._core = core
        self.log = log
        self.spec = spec.spec
        core.use(make_structure(self.spec.treespec))
        core.take_foreign(list(spec.foreign))
        self.options = options
        self.backend = self  # for worker processes
        self.put_all = core.put_all
        self.error: BaseException | None = None
        self._has_ended = False

    # ---- epochs

    def begin_epoch(self) -> None:
        """Note that upstream begins an epoch."""
        self._has_ended = False

    def is_whole(self) -> bool:
        """Return whether the epoch has all of upstream's examples.

        It may be short where no job is in it, which has ended it.
        """
        return self._has_ended or all(waiting for _, waiting, *_ in self.core.jobs())

    def release_objects(self) -> None:
        """Give back the memory of what jobs need no more of the log."""
        if self.log is None:
            return
        published = self.core.published()
        needed = [
            min(published - held, self.log.needed(seat))
            for seat, waiting, _, _, held, _ in self.core.jobs()
            if not waiting
        ]
        self.log.release(min(needed, default=published))

    def release(self) -> None:
        """Free the memory, as far as no job has it."""
        self.core.release()
        if self.log is not None:
            self.log.close()

    # ---- as of a buffer's backend

    @property
    def slots(self) -> int:
        """Number of slots."""
        return self.core.slots()

    def is_spilled(self) -> bool:
        """Return True if the slots are in a file on a disk."""
        return "memfd:" not in os.readlink(f"/proc/self/fd/{self.core.memory_fd()}")

    # ---- as of a buffer, to feeders

    def put_tree(self, tree: Any, stacked: bool) -> None:
        """Put one example, or examples stacked on axis 0; wait while jobs need all."""
        outcome = self.core.put_tree(tree, stacked, None)
        if outcome is not None and outcome[0] == _core.MISMATCH:
            outcome = put_arrays(
                self.core, tree, self.spec, stacked, None, self._check_sizes
            )
        if outcome is not None:
            self.refuse_put(*outcome)

    def _check_sizes(self, arrays: list[Any], stacked: bool) -> None:
        """Raise for an example that is larger than it may be."""
        if self.spec.is_ragged:
            share = self.core.share_bytes
            ragged.check_sizes(
                arrays, self.spec, self.options, stacked=stacked, share=share
            )

    def refuse_put(self, code: int, accepted: int) -> NoReturn:
        """Raise for a put that ended with `code` after `accepted` examples."""
        raise put_error(code, accepted, failed=False)

    def close(self) -> None:
        """Note that upstream has ended the epoch."""
        self._has_ended = True
        self.core.close()

    def fail(self, error: BaseException) -> None:
        """End the epoch since upstream failed, or no job was left in it."""
        if not isinstance(error, ClosedError):
            self.error = error
        self.core.close()

    def abandon(self, term: int) -> None:
        """End the epoch of that term, if it is still open."""
        if term == self.core.term():
            self.core.close()

    def term(self) -> int:
        """Return a number that changes whenever an epoch is begun."""
        return self.core.term()


def allocate(
    spec: Spec, slots: int, options: Options, spill: Any, lease_s: float
) -> _core.SharedRing:
    """Make a ring in memory, or in a file without a name."""
    leaves, more = ring_arguments(spec, options)
    try:
        needed = _core.SharedRing.bytes_of(leaves, slots, *more)
    except MemoryError:  # more than can be counted
        raise CapacityError(
            f"{slots:,} examples are larger than any memory. {_SMALLER}."
        ) from None
    if spill is None:
        available = capacity.available_bytes()
        if needed > available:
            raise CapacityError(
                f"{slots:,} examples need {needed:,} bytes, but this machine has "
                f"{available:,} available. {_SMALLER}, or give `spill=`, a folder on a "
                "disk."
            )
    file = -1 if spill is None else _open_file(spill, needed)
    try:
        return _core.SharedRing(leaves, slots, file, lease_s, *more)
    except MemoryError:
        raise CapacityError(
            f"{needed:,} bytes for {slots:,} examples were refused by the system. "
            f"{_SMALLER}."
        ) from None
    finally:
        if file >= 0:
            os.close(file)


_SMALLER = "Make `window`, `lag` or `payload_bytes` smaller"


def ring_arguments(
    spec: Spec, options: Options
) -> tuple[list[tuple[Any, Any]], tuple[int, int]]:
    """Return the leaves of a native ring, and its window and payload."""
    leaves = [(field.dtype, field.shape) for field in spec.fields]
    return leaves, (options.window, options.payload_bytes or 0)


def _open_file(spill: Any, needed: int) -> int:
    try:
        folder = Path(spill)
        file = _open_unnamed(folder)
    except (OSError, TypeError, ValueError) as error:
        raise OptionError(
            f"`spill` is {spill!r}; it must be a folder that can be written ({error})."
        ) from None
    try:
        os.posix_fallocate(file, 0, needed)
    except OSError as error:
        os.close(file)
        raise CapacityError(
            f"{needed:,} bytes do not fit {str(folder)!r}: {error.strerror}. Make "
            "`window` or `lag` smaller, or `spill` to a larger disk."
        ) from None
    return file


def _open_unnamed(folder: Path) -> int:
    with contextlib.suppress(OSError):
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    file, name = tempfile.mkstemp(prefix="echobuf-", dir=folder)
    os.unlink(name)
    return file


# ---- upstream, begun epoch by epoch


class ServerUpstream:
    """The upstream of a server; arguments as for `Server`."""

    def __init__(
        self,
        upstream: Any,
        *,
        batched: Any,
        length: Any,
        sampler: Any,
        workers: WorkerSettings | None,
        ragged: RaggedServing | None = None,
        window: int = 1,
    ) -> None:
        self._length: int | None = length
        if is_attached(upstream):
            raise OptionError(
                "`upstream` is attached to a server; what is served already is not "
                "served again: attach jobs to that server."
            )
        choice = choose_reader(
            upstream, Adapter(), workers, sampler=sampler, batched=batched
        )
        upstream, self.reader = choice.upstream, choice.reader
        self._batched = source.yields_batches(upstream) if batched is None else batched
        self._upstream = Upstream(upstream)
        self._ragged = ragged
        self._window = window
        # From the first item on:
        self._batch_decoder: BatchDecoder | None = None
        self._carrier: Carrier | None = None
        self._thread = UpstreamThread()

    def first(self) -> tuple[UpstreamStart, ExampleSpec]:
        """Begin the first epoch; return it, and the spec of its examples."""
        looks_ahead = self._ragged is not None and not self._batched
        start = self.begin(0, looks_ahead=looks_ahead)
        if start.items is None:
            raise UpstreamError("upstream yields nothing in its first epoch.")
        first = self.reader.first_item(start)
        nodes.learn(first)
        nodes.warn_of_lost(first, "batch" if self._batched else "example")
        if self._ragged is None:
            infer = functools.partial(fixed_tree, batched=self._batched)
            spec, adapter = read_spec(first, infer, boxed=self._strip(first))
        else:
            spec, adapter = self._first_ragged(self._ragged, start, first)
        if not self.reader.is_pool:
            self.reader = ThreadReader(adapter)
        return start, spec

    def _first_ragged(
        self, ragged: RaggedServing, start: UpstreamStart, first: Any
    ) -> tuple[ExampleSpec, Adapter]:
        more, boxed = iter(()), first
        if self._batched:
            self._batch_decoder = ragged.batch_decoder(self._upstream.iterable, first)
            boxed = self._batch_decoder.wrap(first)
        boxed = self._strip(boxed)
        if not self._batched and isinstance(start.items, LookAhead):
            more = self._thread.iterate(
                self.reader.look(start.items, most_ahead(self._window))
            )
            if self._carrier is not None:
                more = map(self._carrier.strip, more)
        infer = ragged.inference(more, batched=self._batched)
        try:
            return read_spec(first, infer, boxed=boxed)
        except OptionError:  # of too few examples, perhaps
            if isinstance(start.items, LookAhead):
                start.items.raise_error()
            raise

    def _strip(self, first: Any) -> Any:
        """Return the first item without the leaves that are no arrays."""
        ragged = self._ragged is not None
        self._carrier = find_carrier(first, batched=self._batched, ragged=ragged)
        stripped = first if self._carrier is None else self._carrier.strip(first)
        refuse_on_device(stripped, "batch" if self._batched else "example")
        return stripped

    def begin(self, number: int, *, looks_ahead: bool = False) -> UpstreamStart:
        """Begin an epoch."""
        try:
            self._upstream.epochs.set(number)
        except Exception as error:
            raise UpstreamError(
                f"`set_epoch({number})` of upstream raised {describe(error)}"
            ) from error
        start = self._thread.begin(
            begin_upstream, self._upstream, self.reader, None, looks_ahead
        )
        if start.error is not None:
            raise UpstreamError(
                f"upstream failed: {describe(start.error)}"
            ) from start.error
        return start

    def count(self) -> int | None:
        """Return the number of fresh examples an epoch, or None if unknown."""
        if self._length is not None:
            return self._length
        upstream = self._upstream.iterable
        if self._batched and source.has_own_collate(upstream):
            return None  # which may make any number of examples
        try:
            return count_units(upstream, stacked=self._batched)
        except TypeError:
            return None

    def feed(
        self, ring: SharedRing, start: UpstreamStart, skipped: int, stopped: Signal
    ) -> None:
        """Put an epoch, without its first `skipped` examples; return when done."""
        ring.begin_epoch()
        if start.items is None:
            ring.close()
            return
        published = None
        if ring.log is not None:
            published = Published(ring.log, ring.core.published())
        request = FeedRequest(
            self._thread,
            start,
            skipped,
            self._batched,
            batch_decoder=self._batch_decoder,
            told=self._upstream.epochs.number,
            carrier=self._carrier,
            published=published,
        )
        with enough("the upstream of a server", "make `num_workers` smaller"):
            feeder = self.reader.feed(ring, request)  # type: ignore[arg-type]
        del start, request
        while not feeder.join(_SLICE_S):
            ring.release_objects()
            if stopped.is_set():
                feeder.end()

    def close(self) -> None:
        """Drop the worker processes, which then end; do not wait for them."""
        self._thread.leave(0.0)
        self.__dict__.pop("reader", None)
