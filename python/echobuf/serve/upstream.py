"""The upstream of a server: begun epoch by epoch, and put into its ring."""

from __future__ import annotations

import functools
from typing import Any

from echobuf import nodes
from echobuf.errors import OptionError, UpstreamError, describe
from echobuf.loader import source
from echobuf.loader.items import Adapter, LookAhead
from echobuf.loader.lengths import count_units
from echobuf.loader.ragged import BatchDecoder
from echobuf.loader.readers import FeedRequest, ThreadReader, choose_reader, is_attached
from echobuf.loader.thread import UpstreamThread
from echobuf.loader.upstream import (
    Upstream,
    UpstreamStart,
    begin_upstream,
)
from echobuf.nodes import warn_of_lost
from echobuf.resources import Signal, enough
from echobuf.serve.protocol import ExampleSpec, fixed_tree, read_spec
from echobuf.serve.ragged import RaggedServing, most_ahead
from echobuf.serve.shared_ring import SharedRing
from echobuf.workers.settings import WorkerSettings

_SLICE_S = 0.25


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
        self._batch_decoder: BatchDecoder | None = None  # from the first item on
        self._thread = UpstreamThread()

    def first(self) -> tuple[UpstreamStart, ExampleSpec]:
        """Begin the first epoch; return it, and the spec of its examples."""
        looks_ahead = self._ragged is not None and not self._batched
        start = self.begin(0, looks_ahead=looks_ahead)
        if start.items is None:
            raise UpstreamError("upstream yields nothing in its first epoch.")
        first = self.reader.first_item(start)
        nodes.learn(first)
        warn_of_lost(first, "batch" if self._batched else "example")
        if self._ragged is None:
            infer = functools.partial(fixed_tree, batched=self._batched)
            spec, adapter = read_spec(first, infer)
        else:
            spec, adapter = self._first_ragged(self._ragged, start, first)
        if not self.reader.is_pool:
            self.reader = ThreadReader(adapter)
        return start, spec

    def _first_ragged(
        self, ragged: RaggedServing, start: UpstreamStart, first: Any
    ) -> tuple[ExampleSpec, Adapter]:
        more, boxed = iter(()), None
        if self._batched:
            self._batch_decoder = ragged.batch_decoder(self._upstream.iterable, first)
            boxed = self._batch_decoder.wrap(first)
        elif isinstance(start.items, LookAhead):
            more = self._thread.iterate(
                self.reader.look(start.items, most_ahead(self._window))
            )
        infer = ragged.inference(more, batched=self._batched)
        try:
            return read_spec(first, infer, boxed=boxed)
        except OptionError:  # of too few examples, perhaps
            if isinstance(start.items, LookAhead):
                start.items.raise_error()
            raise

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
            return count_units(upstream, batched=self._batched, whole=False)
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
        request = FeedRequest(
            self._thread,
            start,
            skipped,
            self._batched,
            batch_decoder=self._batch_decoder,
            told=self._upstream.epochs.number,
        )
        with enough("the upstream of a server", "make `num_workers` smaller"):
            feeder = self.reader.feed(ring, request)  # type: ignore[arg-type]
        del start, request
        while not feeder.join(_SLICE_S):
            if stopped.is_set():
                feeder.end()

    def close(self) -> None:
        """Drop the worker processes, which then end; do not wait for them."""
        self._thread.leave(0.0)
        self.__dict__.pop("reader", None)
