"""Checkpoints of a buffer, as its callers take and load them."""

from __future__ import annotations

from typing import Any

from echobuf import state
from echobuf._engine.parts import Parts
from echobuf.arguments import check_epoch
from echobuf.errors import EchobufError, StateError


class Resumable(Parts):
    """A base of `EchoBuffer`: its epochs, and its state between two batches."""

    def reset(self, epoch: int | None = None) -> None:
        """Empty the buffer for another epoch, in the same memory, in another order.

        The epoch ends as it stands: what was not served is given up, and a `put` that
        waits raises `ClosedError`.

        Args:
            epoch: its number; by default the next one.
        """
        self._begin_epoch(self._epoch + 1 if epoch is None else check_epoch(epoch))

    def _begin_epoch(self, epoch: int, gap: int = 0) -> None:
        """End the epoch as it stands, and open another in the same memory.

        Args:
            epoch: number of the new epoch.
            gap: positions of the ring that are passed over in between.
        """
        self._termination.check(self._core.reset(epoch, gap))
        self._epoch = epoch
        self._termination.epoch_begins()
        self._forget()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the batches handed out so far, for `json` to keep.

        `state["fresh_offset"]` is the index of the oldest fresh example still needed;
        `state["epoch"]` the epoch it belongs to. Once upstream has ended and the last
        batch is out, that is the start of the next epoch; before `close()` nothing can
        tell which batch is the last.
        """
        return state.seal(self._arguments, self._position())

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
        (fresh, served, *_), *_ = self._raw_stats()
        position = state.unseal(state_dict, self._arguments)
        if fresh or served:
            raise StateError(
                f"the buffer has been used ({fresh} examples put); load a state before "
                "the first `put`, or after `reset`."
            )
        self._restore(position)

    def _position(self) -> state.State:
        """Return the position of the batches handed out, as `state.seal` takes it.

        Raises:
            StateError: a function of `transform` raised, and its batch waits.
        """
        checkpoint = self._core.checkpoint()
        if isinstance(checkpoint, int):
            self._termination.check(checkpoint)
            raise AssertionError(checkpoint)
        if self._functions is not None and self._functions.waits():
            raise StateError(
                "a batch was drawn and its Lambda raised; a state taken now would "
                "leave it out. Call `next_batch` until it comes, then take the state."
            )
        return state.position_of(checkpoint)

    def _restore(self, position: state.State) -> None:
        """Continue at a position that `_position()` returned.

        Raises:
            StateError: it is damaged.
        """
        checkpoint = state.as_checkpoint(position)
        if checkpoint is None:
            self._begin_epoch(position["epoch"])
            return
        try:
            self._termination.check(self._core.restore(checkpoint))
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            if isinstance(error, EchobufError):
                raise
            raise StateError(f"`state` is damaged: {error}.") from None
        self._epoch = position["epoch"]
