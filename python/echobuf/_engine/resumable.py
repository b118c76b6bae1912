"""Checkpoints of a buffer, as its callers take and load them."""

from __future__ import annotations

from typing import Any

from echobuf import state
from echobuf._engine.engine import Engine
from echobuf.errors import StateError


class Resumable:
    """A base of `EchoBuffer`: its state, taken between two batches."""

    _engine: Engine

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the batches handed out so far, for `json` to keep.

        `state["fresh_offset"]` is the index of the oldest fresh example still needed;
        `state["epoch"]` the epoch it belongs to. Once upstream has ended and the last
        batch is out, that is the start of the next epoch; before `close()` nothing can
        tell which batch is the last.
        """
        return state.seal(self._engine.arguments, self._engine.position())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where a buffer with the same arguments was.

        Call it before the first `put`; then put the fresh examples of epoch
        `state["epoch"]` from `state["fresh_offset"]` on.

        Raises:
            StateError: the state is damaged or of other arguments, or this buffer has
                been used.

        Examples:
            >>> first, second = (
            ...     EchoBuffer(np.int64(0), batch_size=2, window=4) for _ in range(2)
            ... )
            >>> first.put_batch(np.arange(4))
            >>> batch, state = first.next_batch(), first.state_dict()
            >>> second.load_state_dict(state)
            >>> second.put_batch(np.arange(4)[state["fresh_offset"] :])
            >>> (second.next_batch() == first.next_batch()).tolist()
            [True, True]
        """
        (fresh, served, *_), *_ = self._engine.raw_stats()
        position = state.unseal(state_dict, self._engine.arguments)
        if fresh or served:
            raise StateError(
                f"the buffer has been used ({fresh} examples put); load a state before "
                "the first `put`, or after `reset`."
            )
        self._engine.restore(position)
