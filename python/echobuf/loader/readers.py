"""Readers of data: a thread of this process, worker processes, or a server."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from echobuf._engine.carry import Carrier
from echobuf.errors import OptionError
from echobuf.loader import source
from echobuf.loader.feeder import Feeder, ItemFeeder, Sink
from echobuf.loader.items import Adapter
from echobuf.loader.look_ahead import LookAhead
from echobuf.loader.ragged import BatchDecoder
from echobuf.loader.source import Order, Sampled, as_batches, is_map_style
from echobuf.loader.states import Snapshots
from echobuf.loader.thread import UpstreamThread
from echobuf.loader.upstream import UpstreamStart, describe_next
from echobuf.loader_buffer import LoaderBuffer
from echobuf.state import State

if TYPE_CHECKING:
    from echobuf.workers.object_log import ObjectLog
    from echobuf.workers.settings import WorkerSettings


@dataclass(frozen=True)
class Published:
    """The part of a log that an epoch is written to, for the jobs of a server.

    Attributes:
        log: the log.
        first: the number in it of the first example that is put.
    """

    log: ObjectLog
    first: int


@dataclass(frozen=True)
class FeedRequest:
    """An epoch that a reader is to feed.

    Attributes:
        thread: of upstream.
        start: of upstream.
        needed: index of the first fresh example that the buffer needs.
        stacked: items hold examples stacked on axis 0.
        snapshots: take upstream's state between items; None if it has none.
        batch_decoder: decodes batches with ragged leaves; None where none are.
        carrier: takes leaves out of items that are no arrays; None without such.
        published: the log in which they are for other processes; None without one.
        number: of the epoch.
        resume: the position that it goes on from; None: at its start.
        told: the epoch that `set_epoch` of upstream was told last; None if none was.
    """

    thread: UpstreamThread
    start: UpstreamStart
    needed: int = 0
    stacked: bool = False
    snapshots: Snapshots | None = None
    batch_decoder: BatchDecoder | None = None
    number: int = 0
    resume: State | None = None
    told: int | None = None
    carrier: Carrier | None = None
    published: Published | None = None

    @property
    def first(self) -> int:
        """The number of the first example that the buffer needs, as it counts them."""
        return 0 if self.resume is None else int(self.resume["fresh_offset"])


class Reader(ABC):
    """Makes the examples of an epoch and puts them into a buffer.

    Upstream is iterated on its thread in any case: it yields examples; indices, of
    which a worker pool makes examples; or the epochs of a server.
    """

    is_pool = False
    """True for worker processes of the loader's own."""
    is_attached = False
    """True where a server reads the data: `iter` then waits for that alone."""

    def is_ready(self) -> bool:
        """Return True if an epoch can be begun without waiting."""
        return True

    def check(self, start: UpstreamStart) -> UpstreamStart:
        """Return the start of an epoch, or its error where no example can be made."""
        return start

    def first_item(self, start: UpstreamStart) -> Any:
        """Return the first item of an epoch that was begun, to infer the spec from."""
        return start.first

    def look(self, items: LookAhead, most: int) -> Iterator[Any]:
        """Yield the items after the first, up to `most`, which come again."""
        return items.look(most)

    def describe_wait(self) -> str:
        """Return what it waits for, when no example comes."""
        return describe_next()

    @abstractmethod
    def feed(self, buffer: LoaderBuffer, request: FeedRequest) -> Feeder:
        """Begin to feed an epoch into a buffer.

        Raises:
            OptionError: the dataset cannot be sent to other processes.
            StateError: this reader cannot continue in the middle of an epoch.
        """

    def close(self) -> None:  # noqa: B027 - a thread ends with its epoch
        """End worker processes, or leave the server."""


class ThreadReader(Reader):
    """Puts what upstream yields, on its thread.

    Args:
        adapter: to the framework of the loader.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def feed(self, buffer: Sink, request: FeedRequest) -> Feeder:
        """Begin; the examples that are not needed are skipped."""
        start, decoder = request.start, request.batch_decoder
        if isinstance(start.items, LookAhead):
            start.first = start.items.first
        make: Callable[..., Feeder] = ItemFeeder
        if request.published is not None:
            from echobuf.loader.publishing import PublishingFeeder

            make = functools.partial(PublishingFeeder, request.published)
        return make(
            sink=buffer,
            thread=request.thread,
            start=start,
            stacked=request.stacked,
            decode=None if decoder is None else decoder.wrap,
            carrier=request.carrier,
            first=request.first,
            read=self._adapter.decoder(),
            skipped=request.needed - start.offset,
            snapshots=request.snapshots,
        )


@dataclass(frozen=True)
class ReaderChoice:
    """A reader, and what it reads.

    Attributes:
        given: the upstream of the loader, as the caller gave it.
        upstream: what is iterated.
        reader: makes examples from it.
        make: what makes a buffer for them.
        order: which examples are read, where they are read by index.
        workers: the loader's own; None without.
    """

    given: Any
    upstream: Any
    reader: Reader
    make: Callable[..., LoaderBuffer] = LoaderBuffer
    order: Order | None = None
    workers: WorkerSettings | None = None


def choose_reader(
    upstream: Any,
    adapter: Adapter,
    workers: WorkerSettings | None,
    *,
    sampler: Any,
    batch_size: Any = None,
    batched: Any = None,
    unit: Any = "example",
    overlap_epochs: Any = False,
) -> ReaderChoice:
    """Return the reader that the arguments of a loader ask for.

    Raises:
        OptionError: they do not go together, or `upstream` is none.
    """
    given = upstream
    upstream = as_batches(
        given, batch_size=batch_size, batched=batched, overlap_epochs=overlap_epochs
    )
    source.check_iterable(upstream)
    if is_attached(upstream):
        check_attached(workers, sampler, batched, unit)
        reader = upstream.__echobuf_reader__()
        return ReaderChoice(given, reader, reader, reader.make_buffer)
    if workers is not None:
        from echobuf.loader.pool_reader import PoolReader

        order = Order(upstream, sampler)
        reader = PoolReader(workers, order, adapter)
        make = functools.partial(LoaderBuffer, shared=True)
        return ReaderChoice(given, order, reader, make, order, workers)
    if sampler is not None or is_map_style(upstream):
        order = Order(upstream, sampler)
        reader = ThreadReader(adapter)
        return ReaderChoice(given, Sampled(order), reader, order=order)
    return ReaderChoice(given, upstream, ThreadReader(adapter))


def is_attached(upstream: Any) -> bool:
    """Return True for an upstream that brings its reader: a job of a server."""
    return hasattr(type(upstream), "__echobuf_reader__")


def check_attached(workers: Any, sampler: Any, batched: bool | None, unit: str) -> None:
    """Refuse what the server decides.

    Raises:
        OptionError: names it.
    """
    if unit != "example":
        raise OptionError(
            f"`unit` is {unit!r}; a server serves examples: leave it out here."
        )
    for name, value in (
        ("num_workers", workers),
        ("sampler", sampler),
        ("batched", batched),
    ):
        if value:
            raise OptionError(
                f"`{name}` is for who reads the data; `upstream` is attached to a "
                "server, which does: say it there, and leave it out here."
            )
