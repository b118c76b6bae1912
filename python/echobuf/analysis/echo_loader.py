"""An `EchoLoader` to analyze: what it reads, without its window and its echoes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from echobuf.errors import OptionError
from echobuf.loader import EchoLoader
from echobuf.loader.order import Order
from echobuf.loader.readers import ThreadReader
from echobuf.workers.settings import Settings
from echobuf.workers.workforce import Workforce

# Loaders that are made with the arguments of `EchoLoader` alone.
_KINDS = ("echobuf.torch.loader", "echobuf.jax.loader", "echobuf.loader.loader")


@dataclass(frozen=True)
class Unwrapped:
    """The upstream of an `EchoLoader`, and how it was asked to serve it.

    Attributes:
        upstream: what it iterates; batches of its worker processes, if it has some.
        batched: whether that yields batches.
        batch_size: examples of a batch; None if that is not known yet.
        window: in examples; None where it counts batches.
        max_factor: of the loader.
        length: examples in an epoch, where the loader was told.
        device: where it serves batches.
        transform: what it does to them.
        seed: of the transform.
    """

    upstream: Any
    batched: bool
    batch_size: int | None
    window: int | None
    max_factor: int
    length: int | None
    device: str
    transform: Any
    seed: int


class WorkerBatches:
    """The examples that worker processes make, in batches, without echoing.

    The processes are started with the first epoch, and kept.

    Args:
        kind: of the loader.
        order: the dataset, and the order of its examples.
        settings: of the workers.
        batch_size: of the batches.

    Attributes:
        order: the same.
        count: worker processes.
    """

    def __init__(
        self, kind: type[EchoLoader], order: Order, settings: Settings, batch_size: int
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
        """Ends the processes."""
        loader, self._loader = self._loader, None
        if loader is not None:
            loader._end_current()


class InThisProcess:
    """The work for an example in a worker, in the form of a DataLoader's parts.

    Args:
        batches: of workers.
    """

    batch_sampler = None
    pin_memory = False

    def __init__(self, batches: WorkerBatches) -> None:
        self.dataset = batches.order.dataset
        self.sampler = batches.order
        self.num_workers = batches.count

    @staticmethod
    def collate_fn(example: Any) -> Any:
        """Nothing: workers write single examples."""
        return example


def unwrap(loader: EchoLoader) -> Unwrapped:
    """Return what a loader reads.

    Raises:
        OptionError: a server reads it.
        ClosedError: it was closed.
    """
    loader._check_open()
    options, plan = loader._plan.options, loader._plan
    reader, upstream = loader._epochs._reader, loader._upstream.iterable
    batched, batch_size = plan.batched, plan._arguments["batch_size"]
    if isinstance(reader, Workforce):
        settings = reader._settings
        assert isinstance(upstream, Order)
        upstream = WorkerBatches(_kind_of(loader), upstream, settings, batch_size)
        batched = True
    elif not isinstance(reader, ThreadReader):
        raise OptionError(
            "`upstream` is an EchoLoader that is attached to a server; give what the "
            "server reads."
        )
    whole = options.unit == "batch"
    return Unwrapped(
        upstream,
        batched,
        None if whole else batch_size,
        None if whole else plan.window,
        options.max_factor,
        None if whole else _length(plan._length, upstream),
        options.device,
        plan._arguments["transform"],
        options.seed,
    )


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
