"""A torch DataLoader apart: what a worker of it does for an example."""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from echobuf.analysis.measurements import LoaderParts
from echobuf.analysis.phases import Clock, Phase
from echobuf.analysis.reading import Reading
from echobuf.describe_error import describe
from echobuf.errors import UpstreamError

_END = object()


def measure_parts(
    loader: Any, phase: Phase, clock: Clock, examples_in: Callable[[Any], int]
) -> LoaderParts | None:
    """Does in this process, one after the other, what the workers do.

    On a shallow copy of the data set, so that files that it opens when it is first
    used are not open in the caller's one when workers are forked.

    Args:
        loader: a torch DataLoader, or what has its parts.
        phase: how long.
        clock: seconds.
        examples_in: of an item that the loader yields.

    Returns:
        Where the time goes; None if the data set gives nothing here.

    Raises:
        UpstreamError: its data set or `collate_fn` raised, as one does that works in
            workers only.
    """
    parts = _Parts(loader, clock, examples_in)
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
    def __init__(
        self, loader: Any, clock: Clock, examples_in: Callable[[Any], int]
    ) -> None:
        self._loader = loader
        self._clock = clock
        self._examples_in = examples_in
        self.fetch = Reading()
        self.collate = Reading()
        self.pin = Reading()

    def run(self, phase: Phase) -> None:
        pin = _pinning(self._loader)
        for number, (fetch_s, examples, given) in enumerate(self._fetched()):
            if given == 0:
                continue
            begin = self._clock()
            batch = self._loader.collate_fn(examples)
            collate_s = self._clock() - begin
            size = self._examples_in(batch) if given is None else given
            if number:  # the first one opens files, and fills caches
                self.fetch.add(fetch_s, size)
                self.collate.add(collate_s, size)
            if pin is not None:
                begin = self._clock()
                pin(batch)
                if number:
                    self.pin.add(self._clock() - begin, size)
            if phase.is_over(self.collate):
                return

    def _fetched(self) -> Iterator[tuple[float, Any, int | None]]:
        """Seconds, what `collate_fn` is given, and of how many examples, in turn.

        The number is None where the data set may make the batches.
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
            begin = self._clock()
            if not _makes_batches(self._loader):
                examples, size = dataset[indices], None
            elif hasattr(dataset, "__getitems__") and dataset.__getitems__:
                examples, size = dataset.__getitems__(indices), len(indices)
            else:
                examples, size = [dataset[i] for i in indices], len(indices)
            yield self._clock() - begin, examples, size

    def _of_stream(
        self, items: Any, batch_size: int | None
    ) -> Iterator[tuple[float, Any, int | None]]:
        while True:
            begin = self._clock()
            if batch_size is None:
                example = next(items, _END)
                if example is _END:
                    return
                yield self._clock() - begin, example, None
                continue
            examples = list(itertools.islice(items, batch_size))
            if not examples:
                return
            yield self._clock() - begin, examples, len(examples)


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
    """What copies into pinned memory, as the DataLoader does; None if it does not."""
    if not loader.pin_memory:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    from torch.utils.data._utils.pin_memory import pin_memory

    return pin_memory


class Workers:
    """The worker processes of a DataLoader: those that it keeps are ended.

    Args:
        loader: a torch DataLoader, or None.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._had = getattr(loader, "_iterator", None) is not None

    def end(self) -> None:
        """Ends `persistent_workers` unless they were there before."""
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is None or self._had:
            return
        self._loader._iterator = None
        shut_down = getattr(iterator, "_shutdown_workers", None)
        if shut_down is not None:
            shut_down()
