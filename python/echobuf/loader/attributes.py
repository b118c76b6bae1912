"""Attributes that training loops read of a `torch.utils.data.DataLoader`."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from echobuf.errors import ClosedError
from echobuf.loader.plan import Plan
from echobuf.loader.source import Order, as_data_loader
from echobuf.options import show_factor
from echobuf.resources import Closing, Uncopied

if TYPE_CHECKING:
    from echobuf.workers.settings import WorkerSettings

_Self = TypeVar("_Self", bound="DataLoaderLike")


class Attributes:
    """The facts about a loader that its arguments and its upstream settle.

    Args:
        upstream: as the caller gave it.
        sampler: of the loader itself, or None.
        workers: the loader's own, or None.
        order: which examples are read, where the loader reads them by index.
        plan: of the loader.
    """

    def __init__(
        self,
        upstream: Any,
        sampler: Any,
        workers: WorkerSettings | None,
        order: Order | None,
        plan: Plan,
    ) -> None:
        self._upstream = upstream
        self._data_loader = as_data_loader(upstream)
        self._sampler = sampler
        self._workers = workers
        self._order = order
        self._plan = plan

    @property
    def dataset(self) -> Any:
        """The dataset of a wrapped DataLoader; else `upstream` itself."""
        return (
            self._upstream if self._data_loader is None else self._data_loader.dataset
        )

    @property
    def batch_size(self) -> int | None:
        """Examples in a batch; None until the first batch says it."""
        return self._plan.batch_size

    @property
    def sampler(self) -> Any:
        """The indices of an epoch's examples; None for a plain iterable."""
        if self._data_loader is not None:
            return self._data_loader.sampler
        if self._sampler is None and self._order is not None:
            return range(len(self._order))
        return self._sampler

    @property
    def num_workers(self) -> int:
        """Processes that make examples: of the loader, or of a wrapped DataLoader."""
        if self._data_loader is not None:
            return int(self._data_loader.num_workers)
        return 0 if self._workers is None else self._workers.count

    @property
    def drop_last(self) -> bool:
        """True if a last batch shorter than `batch_size` is left out."""
        return self._plan.options.drop_last

    def show(self, device: str) -> str:
        """Return the arguments that matter most, for `repr`."""
        options = self._plan.options
        size = options.show_size(self.batch_size)
        return (
            f"{type(self._upstream).__name__}, {size}window={self._plan.window}, "
            f"factor={show_factor(options.factor)}, unit={options.unit!r}, "
            f"device={device!r}"
        )


class DataLoaderLike(Uncopied, Closing):
    """A loader with the attributes of a DataLoader, which can be closed."""

    _attributes: Attributes
    _plan: Plan
    _closed = False

    @property
    def dataset(self) -> Any:
        """The dataset of a wrapped DataLoader; else `upstream` itself."""
        return self._facts().dataset

    @property
    def batch_size(self) -> int | None:
        """Examples in a batch; None until the first batch says it.

        With `unit="batch"` that of a wrapped DataLoader, else None.
        """
        return self._facts().batch_size

    @property
    def sampler(self) -> Any:
        """The sampler of a wrapped DataLoader, or `sampler`.

        The range of indices for a map-style `upstream` without one; None for an
        iterable.
        """
        return self._facts().sampler

    @property
    def num_workers(self) -> int:
        """Processes that make examples: of a wrapped DataLoader, or `num_workers`."""
        return self._facts().num_workers

    @property
    def drop_last(self) -> bool:
        """True if a last batch shorter than `batch_size` is left out."""
        return self._facts().drop_last

    def __len__(self) -> int:
        """Return the number of batches in an epoch.

        That is the epoch that is running: one whose iterator is there, and not at its
        end. Otherwise it is the epoch that the next `iter` begins. With a fractional
        `factor` epochs differ by at most the batches of a segment
        (`window // ceil(factor)` examples), since other examples get the extra use in
        each; with an integer one all epochs have the same number. A resumed epoch
        counts as a whole.

        Raises:
            TypeError: upstream's length is not known, or `factor` is "auto".
            ClosedError: the loader was closed.
        """
        self._check_open()
        return self._count_batches(self._counted_epoch())

    def _count_batches(self, epoch: int) -> int:
        """Return the number of batches in an epoch, given by its number."""
        return self._plan.epoch_length().count_batches(epoch)

    @abstractmethod
    def _counted_epoch(self) -> int:
        """Return the number of the epoch that `len` is about."""

    def max_batches(self) -> int:
        """Return the most batches that an epoch can have, for learning rate schedules.

        With "auto" no example is served more than `max_factor` times, so n of them give
        at most `n * max_factor` draws; an epoch whose upstream is slow enough has as
        many. With an integer factor it is `len(loader)`, with a fractional one at most
        a segment (window / ceil(factor) examples) more.

        Raises:
            TypeError: upstream's length is not known; `length=` says it.
            ClosedError: the loader was closed.

        Examples:
            >>> EchoLoader(range(100), batch_size=10, factor="auto").max_batches()
            80
        """
        self._check_open()
        return self._plan.max_batches()

    def __bool__(self) -> bool:
        """Return False if the length is known to be 0; never raise."""
        try:  # without asking other ranks, or beginning an epoch
            if self._plan.awaits_first():
                return True
            length = self._plan.epoch_length()
            return length.count_batches(self._counted_epoch()) != 0
        except Exception:  # upstream's own `__len__` may raise anything
            return True

    def __repr__(self) -> str:
        """Return the upstream, and the arguments that matter most."""
        kind = type(self)
        module = kind.__module__
        if module.startswith("echobuf."):  # where users import it from
            module = re.sub(r"\.(loader|trainers)\b", "", module)
        name = f"{module}.{kind.__qualname__}"
        if self._closed:
            return f"{name}(closed)"
        return f"{name}({self._attributes.show(self._place_shown())})"

    def _facts(self) -> Attributes:
        self._check_open()
        return self._attributes

    def _check_open(self) -> None:
        if self._closed:
            raise closed_error()

    def _place_shown(self) -> str:
        """Return where batches are, for `repr`."""
        return self._plan.options.device

    def __enter__(self: _Self) -> _Self:
        self._check_open()
        return self


def closed_error() -> ClosedError:
    """Return the error for any use of a loader after `close()`."""
    return ClosedError("this loader was closed; make another one around the same data.")
