"""The calls of a loader's consumer beside its iterators: states and statistics."""

from __future__ import annotations

import warnings
from typing import Any

from echobuf import state
from echobuf.loader.arrivals import unseal
from echobuf.loader.attributes import DataLoaderLike
from echobuf.loader.epochs import Epochs
from echobuf.loader.starter import EpochStarter
from echobuf.loader.upstream import Upstream
from echobuf.stats import NOTHING, Stats, make_stats


class Consumed(DataLoaderLike):
    """A base of `EchoLoader`: what is asked of it between batches."""

    _starter: EpochStarter
    _epochs: Epochs
    _upstream: Upstream
    _is_warned: bool

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
        snapshots = self._starter.snapshots
        trouble = None if snapshots is None else snapshots.trouble
        if trouble is not None and not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"{trouble}; `state` is without it, and a loader that goes on from it "
                "reads upstream from its start.",
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
