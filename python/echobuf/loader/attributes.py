"""Attributes of loaders that training loops ask for, as of a StatefulDataLoader."""

from __future__ import annotations

import re
import warnings
from abc import abstractmethod
from typing import Any, TypeVar

from echobuf import state
from echobuf.arguments import show_factor
from echobuf.loader.arrivals import unseal
from echobuf.loader.epochs import Epochs
from echobuf.loader.plan import Plan
from echobuf.loader.readers import ReaderChoice
from echobuf.loader.source import as_data_loader
from echobuf.loader.starter import EpochStarter
from echobuf.loader.thread import closed_error
from echobuf.loader.upstream import Upstream
from echobuf.resources import Closing, Uncopied
from echobuf.stats import NOTHING, Stats, make_stats

_Self = TypeVar("_Self", bound="DataLoaderLike")


class DataLoaderLike(Uncopied, Closing):
    """A base of `EchoLoader`: what can be asked of it between batches."""

    _choice: ReaderChoice
    _plan: Plan
    _starter: EpochStarter
    _epochs: Epochs
    _upstream: Upstream
    _closed = False
    _is_warned = False

    @property
    def dataset(self) -> Any:
        """The dataset of a wrapped DataLoader; else `upstream` itself."""
        self._check_open()
        given = self._choice.given
        loader = as_data_loader(given)
        return given if loader is None else loader.dataset

    @property
    def batch_size(self) -> int | None:
        """Examples in a batch; None until the first batch says it.

        With `unit="batch"` that of a wrapped DataLoader, else None.
        """
        self._check_open()
        return self._plan.batch_size

    @property
    def sampler(self) -> Any:
        """The sampler of a wrapped DataLoader, or `sampler`.

        The range of indices for a map-style `upstream` without one; None for an
        iterable.
        """
        self._check_open()
        loader, order = as_data_loader(self._choice.given), self._choice.order
        if loader is not None:
            return loader.sampler
        if order is None:
            return None
        return range(len(order)) if order.sampler is None else order.sampler

    @property
    def num_workers(self) -> int:
        """Processes that make examples: of a wrapped DataLoader, or `num_workers`."""
        self._check_open()
        loader, workers = as_data_loader(self._choice.given), self._choice.workers
        if loader is not None:
            return int(loader.num_workers)
        return 0 if workers is None else workers.count

    @property
    def drop_last(self) -> bool:
        """True if a last batch shorter than `batch_size` is left out."""
        self._check_open()
        return self._plan.options.drop_last

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
        options, upstream = self._plan.options, type(self._choice.given).__name__
        size = options.show_size(self._plan.batch_size)
        return (
            f"{name}({upstream}, {size}window={self._plan.window}, "
            f"factor={show_factor(options.factor)}, unit={options.unit!r}, "
            f"device={self._place_shown()!r})"
        )

    def _check_open(self) -> None:
        if self._closed:
            raise closed_error()

    def _place_shown(self) -> str:
        """Return where batches are, for `repr`."""
        return self._plan.options.device

    def __enter__(self: _Self) -> _Self:
        self._check_open()
        return self

    def stats(self) -> Stats:
        """Return counts and times of the current epoch, or the last one.

        Examples:
            >>> loader = EchoLoader(range(100), batch_size=10, factor=3)
            >>> sum(len(batch) for batch in loader)
            300
            >>> loader.stats().effective_factor
            3.0
        """
        self._check_open()
        buffer = self._starter.buffer
        return make_stats(NOTHING) if buffer is None else buffer.stats()

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the batches handed out so far, for `json` to keep.

        It holds the state of upstream, if that has one: `state_dict` and
        `load_state_dict`. A warning says so once where it cannot be kept.
        """
        self._check_open()
        arguments = self._epochs.resumed_arguments() or self._plan.sealed()
        sealed = self._seal(arguments, self._position())
        positions = self._starter.positions
        if positions.trouble is not None and not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"{positions.trouble}; `state` is without it, and a loader that goes "
                "on from it reads upstream from its start.",
                stacklevel=2,
            )
        return sealed

    def _position(self) -> state.State:
        return self._epochs.position()

    def _seal(self, arguments: state.State, position: state.State) -> state.State:
        return state.seal(arguments, position)

    def _unseal(self, sealed: Any) -> state.State:
        return unseal(sealed, self._plan.sealed(), self._starter.reader.is_pool)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Make the next `iter` continue where a loader with the same arguments was.

        Upstream must yield the same items in the same order as it did then. If it has
        a state, it goes on at the first one that is needed; else it is iterated from
        its start, and what is not needed is skipped.

        Raises:
            StateError: the state is damaged, or of other arguments, or tells of the
                state of an upstream that has none here.

        Examples:
            >>> def make():
            ...     return EchoLoader(range(8), batch_size=2, window=4, factor=2)
            >>> batches = iter(loader := make())
            >>> first, state = next(batches), loader.state_dict()
            >>> resumed = make()
            >>> resumed.load_state_dict(state)
            >>> rest = [batch.tolist() for batch in resumed]
            >>> rest == [batch.tolist() for batch in batches]
            True
        """
        self._check_open()
        position = self._upstream.check_state(self._unseal(state_dict))
        self._end_current()
        self._epochs.load(position)

    def _end_current(self) -> None:
        """End the epoch under way, and wait for its thread."""
        self._epochs.end()
