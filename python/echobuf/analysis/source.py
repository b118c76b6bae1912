"""Upstream of an analysis: its kind, its first items, and its random generators."""

from __future__ import annotations

import contextlib
import importlib
import math
import random
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import optree

from echobuf import nodes
from echobuf._engine.carry import count_examples, find_carrier
from echobuf.analysis.loaders import SourceArguments, WorkerBatches
from echobuf.analysis.ragged_lengths import LengthReader, RaggedLengths, rows_of_batches
from echobuf.device_arrays import is_on_device
from echobuf.errors import OptionError, UpstreamError, describe
from echobuf.loader import EchoLoader
from echobuf.loader.items import check_example, infer_batch, refuse_on_device
from echobuf.loader.lengths import count_units
from echobuf.loader.loader import internals_of
from echobuf.loader.look_ahead import copy_leaf
from echobuf.loader.source import (
    as_batches,
    as_data_loader,
    begins_anew,
    check_iterable,
    loader_batch_size,
    yields_batches,
)
from echobuf.spec import make_spec
from echobuf.trees import NAMESPACE, flatten, stand_for

_LOADERS = {"torch": "echobuf.torch", "jax": "echobuf.jax", "jaxlib": "echobuf.jax"}


class Source:
    """Upstream of an analysis, and the loaders over it."""

    def __init__(self, arguments: SourceArguments) -> None:
        batched, batch_size = arguments.batched, arguments.batch_size
        upstream = as_batches(
            arguments.upstream, batch_size=batch_size, batched=batched
        )
        check_iterable(upstream)
        self.arguments = arguments
        self.upstream = upstream  # the batches of a Ray dataset
        self.data_loader = as_data_loader(upstream)  # None if it is no DataLoader
        self.workers = 0 if self.data_loader is None else self.data_loader.num_workers
        # True for a DataLoader that makes batches, for Ray's, and without `batch_size`.
        if batched is None:
            batched = yields_batches(upstream) or batch_size is None
        self.batched = batched
        self._ragged = arguments.ragged
        if batch_size is None and batched:
            batch_size = loader_batch_size(upstream)
        elif batch_size is None and not self._ragged.get("max_rows"):
            raise OptionError(
                "`batch_size` is None, and `batched` is False; say how many examples "
                "the step takes, as an int >= 1."
            )
        own_iterator = hasattr(upstream, "__next__") and hasattr(upstream, "__iter__")
        self.one_shot = own_iterator and self.data_loader is None
        self.item = 0  # examples of the first item; 0 before that
        self.kept: list[Any] = []  # the first items, enough of them for a batch
        self.spec: Any = None  # pytree of `Field`s of one example
        self.on_device = False  # True where items have leaves on a device
        self._kind = EchoLoader
        self._of_loader = batch_size
        # Rows of a batch, where its number of examples follows from their rows; else 0.
        self._rows = rows_of_batches(self._ragged, batch_size or 0)
        self.batch_size = 0 if self._rows else batch_size or 0
        self._lengths = LengthReader(arguments.batch_decoder) if self._ragged else None
        self._kept_examples = 0
        self._last: weakref.ref[Any] | None = None

    @property
    def parts(self) -> tuple[Any, Callable[[Any], int]] | None:
        """Return an object with a DataLoader's parts, and a counter of examples.

        None where upstream has no such parts.
        """
        if self.data_loader is not None:
            return self.data_loader, self.examples_in
        if isinstance(self.upstream, WorkerBatches):
            return self.upstream.in_process(), lambda _: 1
        return None

    def end(self) -> None:
        """End the worker processes that this object started."""
        if isinstance(self.upstream, WorkerBatches):
            self.upstream.end()

    # ---- items

    def examples_in(self, item: Any) -> int:
        """Return the number of examples in an item, on whatever device it is."""
        if self._lengths is not None:
            return self._lengths.examples_in(item)
        if not self.batched:
            return 1
        return count_examples(item, ragged=False) or 0

    def lengths(self) -> RaggedLengths | None:
        """Return the lengths of the examples; None where no leaf is ragged."""
        if self._lengths is None:
            return None
        size = self._of_loader or (None if self._rows else self.batch_size)
        return self._lengths.summary(make_spec(self.spec), size, self._ragged)

    def keep(self, item: Any) -> None:
        """Keep an item, while there are too few for a batch."""
        if self._lengths is not None:
            self._lengths.add(item)
        if not self.kept:
            self._take_first(item)
        elif self.has_batch:
            return
        self.kept.append(optree.tree_map(copy_leaf, item, namespace=NAMESPACE))
        self._kept_examples += self.examples_in(item)
        if self._rows:  # as many examples of the mean length as fill a batch
            assert self._lengths is not None
            mean = self._lengths.longest_rows() / max(1, self._kept_examples)
            self.batch_size = max(1, math.ceil(self._rows / max(1.0, mean)))

    def resident(self) -> Any:
        """Return a batch for the step: upstream's own, if it has the right size."""
        arguments = self.arguments
        made = arguments.transform is not None or self._ragged or arguments.with_info
        as_is = arguments.device == "cpu" and not made
        if as_is and self.batched and self.item == self.batch_size:
            # new containers, since the step may add to them or take from them
            return optree.tree_map(lambda leaf: leaf, self.kept[0], namespace=NAMESPACE)
        loader = self.loader(self.kept)
        epoch = iter(loader)
        batch = next(epoch)
        internals = internals_of(loader)
        if self._ragged:
            assert internals.starter.buffer is not None
            spec = internals.starter.buffer.spec
            self.spec = stand_for(spec.treespec, spec.fields)
            self.batch_size = loader.stats().served
        internals.end_epoch()
        return batch

    def loader(self, upstream: Iterable[Any]) -> EchoLoader:
        """Make a loader for the step's framework: e = 1, and one batch ahead."""
        arguments = self.arguments
        return self._kind(
            upstream,
            batch_size=self._of_loader if self._rows else self.batch_size,
            window=self.batch_size,
            factor=1,
            batched=self.batched,
            device=arguments.device,
            transform=arguments.transform,
            seed=arguments.seed,
            with_info=arguments.with_info,
            **self._ragged,
        )

    def _take_first(self, item: Any) -> None:
        nodes.learn(item)
        self.on_device = any(map(is_on_device, flatten(item)[0]))
        if self.arguments.device == "cpu":
            refuse_on_device(item, "batch" if self.batched else "example")
        self._kind = self.arguments.kind or _loader_for(item)
        self.item = self.examples_in(item)
        if not self._ragged:  # else more than one item says it
            self.spec = self._spec_of(item)
        if not self.item:
            raise UpstreamError(
                "the first batch of `upstream` is empty; leave empty batches out."
            )
        self.batch_size = self.batch_size or self.item

    def _spec_of(self, item: Any) -> Any:
        adapter = internals_of(self._kind([item], batch_size=1, window=1)).adapter
        carrier = find_carrier(item, batched=self.batched, ragged=False)
        first = adapter.read_first(item if carrier is None else carrier.strip(item))
        if self.batched:
            first = infer_batch(first)[0]
        else:
            check_example(first)
        spec = make_spec(first)
        return stand_for(spec.treespec, spec.fields)

    # ---- length

    def length(self, counted: int | None) -> int | None:
        """Return the examples in an epoch: as given, else as counted, else upstream's.

        `counted` is the examples of a whole epoch, if there was one.
        """
        given = self.arguments.length
        if given is not None or counted is not None:
            return counted if given is None else given
        try:
            if self.batched and self.data_loader is None:
                return len(self.upstream) * self.item
            return count_units(self.upstream, stacked=self.batched)
        except Exception:  # upstream has no length, or its `__len__` fails
            return None

    @property
    def batch_items(self) -> int:
        """Return the items that make a batch for the step, after the first item."""
        return -(-self.batch_size // max(1, self.item))

    @property
    def has_batch(self) -> bool:
        """Return whether enough items are kept for a batch."""
        return bool(self.kept) and self._kept_examples >= self.batch_size

    def begin(self) -> Any:
        """Return `iter(upstream)`; refuse the iterator of the last pass."""
        try:
            items = iter(self.upstream)
        except (Exception, SystemExit) as error:
            raise failed(0, error) from error
        last = None if self._last is None else self._last()
        if last is items and not begins_anew(self.upstream):
            raise gives_no_more(self.upstream)
        with contextlib.suppress(TypeError):  # a built-in iterator, always a new one
            self._last = weakref.ref(items)
        return items


def _loader_for(item: Any) -> type[EchoLoader]:
    """Return the loader class for the framework of an item's arrays."""
    for leaf in flatten(item)[0]:
        package = type(leaf).__module__.partition(".")[0]
        if package in _LOADERS:
            module: Any = importlib.import_module(_LOADERS[package])
            return module.EchoLoader  # type: ignore[no-any-return]
    return EchoLoader


def failed(count: int, error: BaseException) -> UpstreamError:
    """Return the error for an upstream that raised after `count` items."""
    return UpstreamError(
        f"`upstream` failed after {count} items: {describe(error)}{raised_at(error)}"
    )


def gives_no_more(upstream: Any) -> UpstreamError:
    """Return the error for an iterable, not an iterator, without a second epoch."""
    return UpstreamError(
        f"`upstream` is a {type(upstream).__name__} that gives nothing new the second "
        "time; pass an object whose `__iter__` begins anew, or the iterator itself: "
        "`iter(upstream)`."
    )


def raised_at(error: BaseException) -> str:
    """Return the file and line that raised an error, as " (train.py:12)"."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    name = trace.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f" ({name}:{trace.tb_lineno})"


def take_random_state(upstream: Any) -> Callable[[], None]:
    """Return a function that restores the generators that upstream may draw from.

    Python, NumPy, torch, a DataLoader and its samplers have generators. Restored before
    a second pass, they give the same examples in the same order.
    """
    taken = [(set_state, get_state()) for get_state, set_state in _states(upstream)]

    def restore() -> None:
        for set_state, state in taken:
            set_state(state)

    return restore


def _states(upstream: Any) -> Iterator[tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Yield functions that return and that set the state of a generator."""
    yield random.getstate, random.setstate
    yield np.random.get_state, np.random.set_state
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_rng_state"):
        return
    yield torch.get_rng_state, torch.set_rng_state
    if torch.cuda.is_initialized():
        yield torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all
    loader = as_data_loader(upstream)
    if loader is None:
        return
    inner = getattr(loader.batch_sampler, "sampler", None)
    holders = (loader, loader.sampler, loader.batch_sampler, inner)
    found: list[Any] = [getattr(holder, "generator", None) for holder in holders]
    for generator in {id(each): each for each in found}.values():
        if hasattr(generator, "get_state"):
            yield generator.get_state, generator.set_state
