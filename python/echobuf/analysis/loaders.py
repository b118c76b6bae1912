"""DataLoaders and EchoLoaders taken apart: the parts that an analysis times."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import optree

from echobuf.analysis import timing
from echobuf.analysis.measurements import LoaderParts
from echobuf.analysis.timing import Phase, Timings
from echobuf.arguments import LOADER
from echobuf.errors import OptionError, UpstreamError, describe
from echobuf.loader import EchoLoader
from echobuf.loader.loader import internals_of
from echobuf.loader.plan import Plan
from echobuf.loader.pool_reader import PoolReader
from echobuf.loader.readers import ThreadReader
from echobuf.loader.source import Order
from echobuf.options import options_of
from echobuf.trees import NAMESPACE
from echobuf.workers.settings import WorkerSettings

Fetched = Iterator[tuple[float, Any, "int | None"]]


def measure_parts(
    loader: Any, phase: Phase, examples_in: Callable[[Any], int]
) -> LoaderParts | None:
    """Time the work of the DataLoader's workers in this process, part by part.

    Returns None if the data set yields nothing here, and raises `UpstreamError` for one
    that works only in worker processes. `examples_in` returns the number of examples in
    an item that the loader yields.
    """
    fetch, collate, pin = Timings(), Timings(), Timings()
    try:
        _time_parts(loader, phase, examples_in, (fetch, collate, pin))
    except (Exception, SystemExit) as error:
        raise UpstreamError(
            f"the data set or `collate_fn` of `upstream` failed in this process: "
            f"{describe(error)}"
        ) from error
    if not collate.count:
        return None
    return LoaderParts(
        workers=loader.num_workers,
        fetch_s=fetch.estimate().mean,
        collate_s=collate.estimate().mean,
        pin_s=pin.estimate().mean if pin.count else None,
    )


def _time_parts(
    loader: Any,
    phase: Phase,
    examples_in: Callable[[Any], int],
    timings: tuple[Timings, Timings, Timings],
) -> None:
    fetch, collate, pin = timings
    pin_memory = _pinning(loader)
    for number, (fetch_s, examples, count) in enumerate(_fetched(loader)):
        begin = timing.now()
        batch = loader.collate_fn(examples)
        collate_s = timing.now() - begin
        size = examples_in(batch) if count is None else count
        if number:  # the first one opens files, and fills caches
            fetch.add(fetch_s, size)
            collate.add(collate_s, size)
        if pin_memory is not None:
            begin = timing.now()
            pin_memory(batch)
            if number:
                pin.add(timing.now() - begin, size)
        if phase.is_over(collate):
            return


def _fetched(loader: Any) -> Fetched:
    """Yield seconds, the argument for `collate_fn`, and its number of examples.

    The number is None where the data set itself makes the batches. Works on a shallow
    copy of the data set: files that it opens on first use must not be open in the
    caller's data set when workers are forked.
    """
    dataset = loader.dataset
    with contextlib.suppress(Exception):
        dataset = copy.copy(dataset)
    data = sys.modules.get("torch.utils.data")
    if data is not None and isinstance(loader.dataset, data.IterableDataset):
        return _of_stream(iter(dataset), loader.batch_size)
    if loader.batch_sampler is None:
        return _of_map(dataset.__getitem__, iter(loader.sampler), counted=False)
    if getattr(dataset, "__getitems__", None):
        return _of_map(dataset.__getitems__, iter(loader.batch_sampler), counted=True)
    return _of_map(
        lambda indices: [dataset[i] for i in indices],
        iter(loader.batch_sampler),
        counted=True,
    )


def _of_map(
    fetch: Callable[[Any], Any], order: Iterator[Any], *, counted: bool
) -> Fetched:
    for indices in order:
        size = len(indices) if counted else None
        begin = timing.now()
        examples = fetch(indices)
        if size != 0:
            yield timing.now() - begin, examples, size


def _of_stream(items: Iterator[Any], batch_size: int | None) -> Fetched:
    while True:
        begin = timing.now()
        examples = list(itertools.islice(items, batch_size or 1))
        seconds = timing.now() - begin
        if not examples:
            return
        if batch_size is None:
            yield seconds, examples[0], None
        else:
            yield seconds, examples, len(examples)


def _pinning(loader: Any) -> Any:
    """Return torch's function that copies into pinned memory; None where not used."""
    if not loader.pin_memory:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    from torch.utils.data._utils.pin_memory import pin_memory

    return pin_memory


@contextlib.contextmanager
def workers_ended(loader: Any) -> Iterator[None]:
    """End the `persistent_workers` of a DataLoader, if any, unless they ran before."""
    had = getattr(loader, "_iterator", None) is not None
    try:
        yield
    finally:
        iterator = getattr(loader, "_iterator", None)
        if iterator is not None and not had:
            loader._iterator = None  # noqa: SLF001 - as torch does to end workers
            getattr(iterator, "_shutdown_workers", lambda: None)()


# Loaders that are made with the arguments of `EchoLoader` alone.
_KINDS = ("echobuf.torch.loader", "echobuf.jax.loader", "echobuf.loader.loader")


@dataclass(frozen=True)
class SourceArguments:
    """An upstream, with the arguments of a loader for it; None where not known.

    The upstream of an `EchoLoader` is that loader's, and with worker processes the
    batches of these. `ragged` has the loader's arguments for ragged leaves, and is
    empty without such leaves; `kind` is then its class.
    """

    upstream: Any
    batched: bool | None = None
    batch_size: int | None = None
    window: int | None = None  # in examples; None if it counts batches
    max_factor: int = 8
    length: int | None = None  # examples in an epoch
    device: str = "cpu"
    transform: Any = None
    seed: int = 0  # of the transform
    ragged: dict[str, Any] = field(default_factory=dict)
    kind: type[EchoLoader] | None = None
    with_info: bool = False
    # Returns the reader for batches like the first one of upstream.
    batch_decoder: Callable[[Any], Any] | None = None


@dataclass(eq=False)
class WorkerBatches:
    """Batches of examples that worker processes make, without echoing.

    The processes start with the first epoch, and stay until `end()`.
    """

    kind: type[EchoLoader]
    order: Order  # the dataset, and the order of its examples
    settings: WorkerSettings
    batch_size: int
    loader: EchoLoader | None = None

    def __iter__(self) -> Iterator[Any]:
        if self.loader is None:
            self.loader = self._make()
        return iter(self.loader)

    def __len__(self) -> int:
        return math.ceil(len(self.order) / self.batch_size)

    def _make(self) -> EchoLoader:
        settings, size = self.settings, self.batch_size
        return self.kind(
            self.order.dataset,
            sampler=self.order.sampler,
            batch_size=size,
            # Room for all workers: an example each, and one more.
            window=size * -(-2 * settings.count // size),
            factor=1,
            num_workers=settings.count,
            multiprocessing_context=settings.context,
            worker_init_fn=settings.init,
            max_restarts=settings.max_restarts,
        )

    def end(self) -> None:
        """End the processes."""
        loader, self.loader = self.loader, None
        if loader is not None:
            internals_of(loader).end_epoch()

    def in_process(self) -> Any:
        """Return the work of a process, to be run here, as a DataLoader's parts."""
        return SimpleNamespace(
            dataset=self.order.dataset,
            sampler=self.order,
            batch_sampler=None,
            num_workers=self.settings.count,
            pin_memory=False,
            collate_fn=lambda example: example,  # workers write single examples
        )


def unwrap(loader: EchoLoader) -> SourceArguments:
    """Return the upstream of a loader, with the arguments that an analysis needs."""
    internals = internals_of(loader)
    plan, reader = internals.plan, internals.reader
    options, upstream = plan.options, internals.upstream
    batched, batch_size = plan.batched, plan.arguments["batch_size"]
    kinds = (each for each in type(loader).__mro__ if each.__module__ in _KINDS)
    kind, length = next(kinds, EchoLoader), plan.length
    if isinstance(reader, PoolReader):
        assert isinstance(upstream, Order)
        if length is None:
            with contextlib.suppress(TypeError):  # a sampler that does not say
                length = len(upstream)
        upstream = WorkerBatches(kind, upstream, reader.settings, batch_size)
        batched = True
    elif not isinstance(reader, ThreadReader):
        raise OptionError(
            "`upstream` is an EchoLoader that is attached to a server; give the "
            "server's upstream."
        )
    whole = options.unit == "batch"
    return SourceArguments(
        upstream,
        batched,
        None if whole else batch_size,
        None if whole else plan.window,
        options.max_factor,
        None if whole else length,
        options.device,
        plan.arguments["transform"],
        options.seed,
        _ragged_arguments(plan, nested=internals.adapter.nested),
        kind if plan.ragged is not None else None,
        options.with_info,
        plan.batch_decoder if batched else None,
    )


def _ragged_arguments(plan: Plan, *, nested: bool) -> dict[str, Any]:
    """Return a loader's arguments for ragged leaves, as it was given them."""
    request = plan.ragged
    if request is None:
        return {}
    form = "nested" if nested else request.form or "packed"
    ragged: Any = form
    if request.flags is not None:
        ragged = optree.tree_map(
            lambda is_one: form if is_one else None,
            request.flags,
            namespace=NAMESPACE,
        )
    given = {
        name: plan.arguments[name] for name, row in options_of(LOADER) if row.for_rows
    }
    return {**given, "ragged": ragged}
