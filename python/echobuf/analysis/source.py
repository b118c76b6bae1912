"""What upstream is: examples or batches, one epoch or many, which loader fits it."""

from __future__ import annotations

import contextlib
import importlib
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import optree

from echobuf import nodes
from echobuf.analysis.echo_loader import InThisProcess, WorkerBatches
from echobuf.describe_error import describe
from echobuf.errors import OptionError, UpstreamError
from echobuf.loader import EchoLoader
from echobuf.loader.plan import count_units
from echobuf.loader.source import (
    as_batches,
    as_data_loader,
    begins_anew,
    check_example,
    check_iterable,
    infer_example,
    loader_batch_size,
    yields_batches,
)
from echobuf.tree import NAMESPACE, make_spec

_LOADERS = {"torch": "echobuf.torch", "jax": "echobuf.jax", "jaxlib": "echobuf.jax"}


class Source:
    """Upstream, and how a loader is to take it.

    Args:
        upstream: any iterable of examples or of batches.
        batch_size: examples that the step takes; None: as many as upstream's batches.
        batched: whether upstream yields batches; None: it does if it is a DataLoader
            that makes batches, or Ray's, or if `batch_size` is not given.
        length: examples in an epoch; None: as upstream says.
        device: where the loader serves batches.
        transform: what the loader does to them.
        seed: of that.

    Attributes:
        upstream: the same.
        device: the same.
        batched: whether it yields batches.
        one_shot: whether it is known to give one epoch only.
        data_loader: it, if it is a torch DataLoader.
        workers: processes of that.
        batch_size: examples that the step takes; 0 until the first item is there.
        item: examples of the first item; 0 until it is there.
        kept: the first items, enough of them for a batch.
        spec: pytree of `Field`s of one example, from the first item on.
    """

    def __init__(
        self,
        upstream: Iterable[Any],
        *,
        batch_size: int | None,
        batched: bool | None,
        length: int | None,
        device: str,
        transform: Any = None,
        seed: int = 0,
    ) -> None:
        upstream = as_batches(upstream, batch_size=batch_size, batched=batched)
        check_iterable(upstream)
        self.upstream = upstream
        self.data_loader = as_data_loader(upstream)
        self.workers = 0 if self.data_loader is None else self.data_loader.num_workers
        if batched is None:
            batched = yields_batches(upstream) or batch_size is None
        self.batched = batched
        if batch_size is None and batched:
            batch_size = loader_batch_size(upstream)
        elif batch_size is None:
            raise OptionError(
                "`batch_size` is None, and `batched` is False; say how many examples "
                "the step takes, as an int >= 1."
            )
        self.one_shot = _is_own_iterator(upstream) and self.data_loader is None
        self.batch_size = batch_size or 0
        self._length = length
        self.device = device
        self._transform = transform
        self._seed = seed
        self.item = 0
        self.kept: list[Any] = []
        self.spec: Any = None
        self._kind = EchoLoader
        self._kept_examples = 0
        self._last: weakref.ref[Any] | None = None

    @property
    def parts(self) -> tuple[Any, Callable[[Any], int]] | None:
        """Return the workers' part in this process, and the examples in an item.

        None where there is nothing to take apart.
        """
        if self.data_loader is not None:
            return self.data_loader, self.examples_in
        if isinstance(self.upstream, WorkerBatches):
            return InThisProcess(self.upstream), lambda _: 1
        return None

    def end(self) -> None:
        """Ends worker processes of its own."""
        if isinstance(self.upstream, WorkerBatches):
            self.upstream.end()

    # ---- items

    def examples_in(self, item: Any) -> int:
        """How many examples an item holds."""
        return length_in(item) if self.batched else 1

    def keep(self, item: Any) -> None:
        """Keeps an item, as long as there are too few for a batch.

        Raises:
            SpecError: the first item cannot be stored.
            UpstreamError: it is an empty batch.
        """
        if not self.kept:
            self._take_first(item)
        elif self._kept_examples >= self.batch_size:
            return
        self.kept.append(item)
        self._kept_examples += self.examples_in(item)

    def resident(self) -> Any:
        """A batch for the step: what upstream yields, where that is a whole batch.

        Raises:
            SpecError: items cannot be stored.
        """
        first = self.kept[0]
        as_is = self.device == "cpu" and self._transform is None
        if as_is and self.batched and self.item == self.batch_size:
            # containers of its own: the step may add to them, or take from them
            return optree.tree_map(lambda leaf: leaf, first, namespace=NAMESPACE)
        loader = self.loader(self.kept)
        epoch = iter(loader)
        batch = next(epoch)
        loader._end_current()
        return batch

    def loader(self, upstream: Iterable[Any]) -> EchoLoader:
        """A loader without echoing, with one batch ahead, for the step's framework.

        Raises:
            OptionError: an argument is out of range.
        """
        return self._kind(
            upstream,
            batch_size=self.batch_size,
            window=self.batch_size,
            factor=1,
            batched=self.batched,
            device=self.device,
            transform=self._transform,
            seed=self._seed,
        )

    def _take_first(self, item: Any) -> None:
        nodes.learn(item)
        self._kind = _loader_for(item)
        self.item = self.examples_in(item)
        self.spec = self._spec_of(item)
        if not self.item:
            raise UpstreamError(
                "the first batch of `upstream` is empty; leave empty batches out."
            )
        self.batch_size = self.batch_size or self.item

    def _spec_of(self, item: Any) -> Any:
        adapter = self._kind([item], batch_size=1, window=1)._adapter()
        first = adapter.read_first(item)
        if self.batched:
            first = infer_example(first)[0]
        else:
            check_example(first)
        spec = make_spec(first)
        return spec.treespec.unflatten(spec.fields)

    # ---- length

    def length(self, counted: int | None) -> int | None:
        """Examples in an epoch: as the caller says, or as counted, or as upstream says.

        Args:
            counted: those of a whole epoch, if there was one.
        """
        if self._length is not None or counted is not None:
            return counted if self._length is None else self._length
        try:
            if self.batched and self.data_loader is None:
                return len(self.upstream) * self.item  # type: ignore[arg-type]
            return count_units(self.upstream, batched=self.batched, whole=False)
        except Exception:  # it says none, or cannot
            return None

    @property
    def batch_items(self) -> int:
        """Items that make a batch for the step, once the first one is there."""
        return -(-self.batch_size // max(1, self.item))

    @property
    def has_batch(self) -> bool:
        """Whether enough is kept for a batch."""
        return bool(self.kept) and self._kept_examples >= self.batch_size

    def begin(self) -> Any:
        """`iter(upstream)`.

        Raises:
            UpstreamError: it raised, or gave the iterator of the last pass again.
        """
        try:
            items = iter(self.upstream)
        except (Exception, SystemExit) as error:
            raise failed(0, error) from error
        last = None if self._last is None else self._last()
        if last is items and not begins_anew(self.upstream):
            raise gives_no_more(self.upstream)
        with contextlib.suppress(TypeError):  # built-in iterators are made anew
            self._last = weakref.ref(items)
        return items


def _loader_for(item: Any) -> type[EchoLoader]:
    """The loader of the framework whose arrays an item holds."""
    for leaf in optree.tree_leaves(item, namespace=NAMESPACE):
        package = type(leaf).__module__.partition(".")[0]
        if package in _LOADERS:
            found: type[EchoLoader] = importlib.import_module(
                _LOADERS[package]
            ).EchoLoader
            return found
    return EchoLoader


def length_in(batch: Any) -> int:
    """The number of examples in a batch, on whatever device it is."""
    leaves = optree.tree_leaves(batch, namespace=NAMESPACE)
    shape = np.shape(leaves[0]) if leaves else ()
    return int(shape[0]) if shape else 0


def _is_own_iterator(upstream: Any) -> bool:
    return hasattr(upstream, "__next__") and hasattr(upstream, "__iter__")


def failed(count: int, error: BaseException) -> UpstreamError:
    """The error for an upstream that raised, after so many items."""
    return UpstreamError(
        f"`upstream` failed after {count} items: {describe(error)}{at(error)}"
    )


def gives_no_more(upstream: Any) -> UpstreamError:
    """The error for an upstream that is no iterator, and gives no second epoch."""
    return UpstreamError(
        f"`upstream` is a {type(upstream).__name__} that gives nothing new the second "
        "time; pass an object whose `__iter__` begins anew, or the iterator itself: "
        "`iter(upstream)`."
    )


def at(error: BaseException) -> str:
    """Where it was raised, as " (train.py:12)"."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    name = trace.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f" ({name}:{trace.tb_lineno})"
