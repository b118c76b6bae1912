"""DataLoaders and EchoLoaders taken apart: the parts that an analysis times."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import optree

from echobuf.analysis import clock
from echobuf.analysis.measurements import LoaderParts
from echobuf.analysis.timings import Phase, Timings
from echobuf.errors import OptionError, UpstreamError, describe
from echobuf.loader import EchoLoader
from echobuf.loader.loader import internals_of
from echobuf.loader.plan import Plan
from echobuf.loader.pool_reader import PoolReader
from echobuf.loader.readers import ThreadReader
from echobuf.loader.source import Order
from echobuf.option import LOADER
from echobuf.options import options_of
from echobuf.trees import NAMESPACE
from echobuf.workers.settings import WorkerSettings

_END = object()


def measure_parts(
    loader: Any, phase: Phase, examples_in: Callable[[Any], int]
) -> LoaderParts | None:
    """Time the work of the DataLoader's workers in this process, part by part.

    Works on a shallow copy of the data set: files that it opens on first use must not
    be open in the caller's data set when workers are forked.

    Args:
        loader: a torch DataLoader, or an object with its attributes.
        phase: decides when to stop.
        examples_in: returns the number of examples in an item that the loader yields.

    Returns:
        The seconds of each part; None if the data set yields nothing here.

    Raises:
        UpstreamError: the data set or `collate_fn` raised, as one that works only in
            worker processes does.
    """
    parts = _Parts(loader, examples_in)
    try:
        parts.run(phase)
    except (Exception, SystemExit) as error:
        raise UpstreamError(
            f"the data set or `collate_fn` of `upstream` failed in this process: "
            f"{describe(error)}"
        ) from error
    if not parts.collate.count:
        return None
    return LoaderParts(
        workers=loader.num_workers,
        fetch_s=parts.fetch.estimate().mean,
        collate_s=parts.collate.estimate().mean,
        pin_s=parts.pin.estimate().mean if parts.pin.count else None,
    )


class _Parts:
    def __init__(self, loader: Any, examples_in: Callable[[Any], int]) -> None:
        self._loader = loader
        self._examples_in = examples_in
        self.fetch = Timings()
        self.collate = Timings()
        self.pin = Timings()

    def run(self, phase: Phase) -> None:
        pin = _pinning(self._loader)
        for number, (fetch_s, examples, given) in enumerate(self._fetched()):
            if given == 0:
                continue
            begin = clock.now()
            batch = self._loader.collate_fn(examples)
            collate_s = clock.now() - begin
            size = self._examples_in(batch) if given is None else given
            if number:  # the first one opens files, and fills caches
                self.fetch.add(fetch_s, size)
                self.collate.add(collate_s, size)
            if pin is not None:
                begin = clock.now()
                pin(batch)
                if number:
                    self.pin.add(clock.now() - begin, size)
            if phase.is_over(self.collate):
                return

    def _fetched(self) -> Iterator[tuple[float, Any, int | None]]:
        """Yield seconds, the argument for `collate_fn`, and its number of examples.

        The number is None where the data set itself makes the batches.
        """
        loader = self._loader
        dataset = _copied(loader.dataset)
        if _is_stream(loader):
            return self._of_stream(iter(dataset), loader.batch_size)
        if _makes_batches(loader):
            return self._of_map(dataset, iter(loader.batch_sampler))
        return self._of_map(dataset, iter(loader.sampler))

    def _of_map(
        self, dataset: Any, order: Any
    ) -> Iterator[tuple[float, Any, int | None]]:
        for indices in order:
            size: int | None
            begin = clock.now()
            if not _makes_batches(self._loader):
                examples, size = dataset[indices], None
            elif hasattr(dataset, "__getitems__") and dataset.__getitems__:
                examples, size = dataset.__getitems__(indices), len(indices)
            else:
                examples, size = [dataset[i] for i in indices], len(indices)
            yield clock.now() - begin, examples, size

    def _of_stream(
        self, items: Any, batch_size: int | None
    ) -> Iterator[tuple[float, Any, int | None]]:
        while True:
            begin = clock.now()
            if batch_size is None:
                example = next(items, _END)
                if example is _END:
                    return
                yield clock.now() - begin, example, None
                continue
            examples = list(itertools.islice(items, batch_size))
            if not examples:
                return
            yield clock.now() - begin, examples, len(examples)


def _makes_batches(loader: Any) -> bool:
    return loader.batch_sampler is not None


def _is_stream(loader: Any) -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(loader.dataset, data.IterableDataset)


def _copied(dataset: Any) -> Any:
    try:
        return copy.copy(dataset)
    except Exception:
        return dataset


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
    """End the `persistent_workers` of a DataLoader, unless they ran before.

    Args:
        loader: a torch DataLoader, or None.
    """
    had = getattr(loader, "_iterator", None) is not None
    try:
        yield
    finally:
        iterator = getattr(loader, "_iterator", None)
        if iterator is not None and not had:
            loader._iterator = None  # noqa: SLF001 - as torch does to end workers
            shut_down = getattr(iterator, "_shutdown_workers", None)
            if shut_down is not None:
                shut_down()


# Loaders that are made with the arguments of `EchoLoader` alone.
_KINDS = ("echobuf.torch.loader", "echobuf.jax.loader", "echobuf.loader.loader")


@dataclass(frozen=True)
class SourceArguments:
    """An upstream, with the arguments of a loader for it.

    Attributes:
        upstream: an iterable; of an `EchoLoader` its upstream, and with worker
            processes the batches of these.
        batched: whether `upstream` yields batches; None to find out.
        batch_size: examples of a batch; None if that is not known yet.
        window: in examples; None if it is not known, or counts batches.
        max_factor: largest factor of "auto".
        length: examples in an epoch, where it is given.
        device: device on which the loader serves batches.
        transform: the loader's transform.
        seed: of the transform.
        ragged: the loader's arguments for ragged leaves; empty without such leaves.
        kind: class of the loader, where it has ragged leaves.
        with_info: whether the step gets batches with their infos.
        batch_decoder: returns the reader for batches like the first one of upstream.
    """

    upstream: Any
    batched: bool | None = None
    batch_size: int | None = None
    window: int | None = None
    max_factor: int = 8
    length: int | None = None
    device: str = "cpu"
    transform: Any = None
    seed: int = 0
    ragged: dict[str, Any] = field(default_factory=dict)
    kind: type[EchoLoader] | None = None
    with_info: bool = False
    batch_decoder: Callable[[Any], Any] | None = None


class WorkerBatches:
    """Batches of examples that worker processes make, without echoing.

    The processes start with the first epoch, and stay until `end()`.

    Args:
        kind: class of the loader.
        order: the dataset, and the order of its examples.
        settings: of the workers.
        batch_size: of the batches.

    Attributes:
        order: the dataset, and the order of its examples.
        count: number of worker processes.
    """

    def __init__(
        self,
        kind: type[EchoLoader],
        order: Order,
        settings: WorkerSettings,
        batch_size: int,
    ) -> None:
        self.order = order
        self.count = settings.count
        self._kind = kind
        self._settings = settings
        self._batch_size = batch_size
        self._loader: EchoLoader | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._loader is None:
            self._loader = self._make()
        return iter(self._loader)

    def __len__(self) -> int:
        return math.ceil(len(self.order) / self._batch_size)

    def _make(self) -> EchoLoader:
        settings = self._settings
        return self._kind(
            self.order.dataset,
            sampler=self.order.sampler,
            batch_size=self._batch_size,
            # Room for all workers: an example each, and one more.
            window=self._batch_size * -(-2 * self.count // self._batch_size),
            factor=1,
            num_workers=self.count,
            multiprocessing_context=settings.context,
            worker_init_fn=settings.init,
            max_restarts=settings.max_restarts,
        )

    def end(self) -> None:
        """End the processes."""
        loader, self._loader = self._loader, None
        if loader is not None:
            internals_of(loader).end_epoch()


class InProcessParts:
    """The work of a worker process, run in this process, as a DataLoader's parts.

    Args:
        batches: those of the worker processes.
    """

    batch_sampler = None
    pin_memory = False

    def __init__(self, batches: WorkerBatches) -> None:
        self.dataset = batches.order.dataset
        self.sampler = batches.order
        self.num_workers = batches.count

    @staticmethod
    def collate_fn(example: Any) -> Any:
        """Return the example as it is: workers write single examples."""
        return example


def unwrap(loader: EchoLoader) -> SourceArguments:
    """Return the upstream of a loader, with the arguments that an analysis needs.

    Raises:
        OptionError: the loader is attached to a server.
        ClosedError: the loader was closed.
    """
    internals = internals_of(loader)
    plan, reader = internals.plan, internals.reader
    options, upstream = plan.options, internals.upstream
    batched, batch_size = plan.batched, plan.arguments["batch_size"]
    if isinstance(reader, PoolReader):
        settings = reader.settings
        assert isinstance(upstream, Order)
        upstream = WorkerBatches(_kind_of(loader), upstream, settings, batch_size)
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
        None if whole else _length(plan.length, upstream),
        options.device,
        plan.arguments["transform"],
        options.seed,
        _ragged_arguments(plan, nested=internals.adapter.nested),
        _kind_of(loader) if plan.ragged is not None else None,
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


def _length(given: int | None, upstream: Any) -> int | None:
    if given is None and isinstance(upstream, WorkerBatches):
        try:
            return len(upstream.order)
        except TypeError:  # a sampler that does not say
            return None
    return given


def _kind_of(loader: EchoLoader) -> type[EchoLoader]:
    kinds = (each for each in type(loader).__mro__ if each.__module__ in _KINDS)
    return next(kinds, EchoLoader)
