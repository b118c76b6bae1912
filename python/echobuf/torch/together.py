"""An epoch of one rank, as long as all ranks agree that it is."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from echobuf.errors import ClosedError, EchobufError, UpstreamError
from echobuf.loader.epoch import Epoch
from echobuf.torch.ranks import (
    ENDED,
    FAILED,
    LEFT,
    ON,
    Ranks,
    Round,
    Said,
    agreement,
)

State = dict[str, Any]


class Together(Iterator[Any]):
    """Hands out as many batches as every rank has in hand.

    Ranks say what they have while the batches agreed on before are used. Who has none
    waits for its upstream, and the others for it, as in any step that they take
    together.

    Args:
        epoch: of this rank.
        ranks: all.
        number: of the epoch.
        pad: when this rank has ended and others have not, its last batches again; else
            the epoch ends with the rank that ends first.
        ahead: batches to have in hand.
        state: that of the batches drawn so far.
        finished: called once, when the epoch has come to its end.
    """

    def __init__(
        self,
        epoch: Epoch,
        ranks: Ranks,
        number: int,
        *,
        pad: bool,
        ahead: int,
        state: Callable[[], State],
        finished: Callable[[], None],
    ) -> None:
        self._epoch = epoch
        self._ranks = ranks
        self._number = number
        self._pad = pad
        self._ahead = ahead
        self._state_of_drawn = state
        self._finished: Callable[[], None] | None = finished
        self._hand: deque[tuple[Any, State]] = deque()
        self._served: deque[Any] = deque(maxlen=ahead)  # to pad with
        self._agreed = 0  # batches that may be handed out
        self._last = False  # nothing comes after these
        self._mine = ON
        self._error: BaseException | None = None
        self._round: Round | None = None
        self._superseded = False
        self.padded = 0
        self.state = state()
        self.offsets = [0] * ranks.size

    def __next__(self) -> Any:
        if self._superseded:
            raise ClosedError(
                "another epoch of this loader was begun; a loader has one iterator "
                "at a time."
            )
        while self._agreed == 0:
            if self._last:
                self._end()
                raise StopIteration
            self._agree()
        self._agreed -= 1
        batch = self._take()
        self._look_ahead()
        return batch

    def _take(self) -> Any:
        if self._hand:
            batch, self.state = self._hand.popleft()
        else:
            batch = self._served.popleft()
            self.padded += 1
        if self._pad:
            self._served.append(batch)
        return batch

    def _end(self) -> None:
        self.stop()
        if self._finished is not None:
            self._finished()
            self._finished = None

    # ---- drawing ahead

    @property
    def _extra(self) -> int:
        return len(self._hand) - self._agreed

    def _draw(self) -> None:
        try:
            batch = next(self._epoch)
        except StopIteration:
            self._mine = ENDED
        except Exception as error:
            self._mine, self._error = FAILED, error
        else:
            self._hand.append((batch, self._state_of_drawn()))

    def _look_ahead(self) -> None:
        """Draws what is ready, and says so early enough not to be waited for."""
        if self._last:
            return
        while self._mine == ON and self._extra < self._ahead and self._epoch.ready():
            self._draw()
        enough = self._extra >= self._ahead or self._mine != ON
        if self._round is None and (enough or (self._agreed == 0 and self._extra > 0)):
            self._say()

    # ---- agreeing

    def _said(self, state: int) -> Said:
        count = 0 if state == LEFT else max(0, self._extra)
        return Said(self._number, count, state, self.state["fresh_offset"])

    def _say(self) -> None:
        self._round = self._ranks.say(self._said(self._mine))

    def _agree(self) -> None:
        if self._round is None:
            while self._extra <= 0 and self._mine == ON:
                self._draw()
            self._say()
        try:
            said = self._hear()
            self._check(said)
        except Exception:
            self._last = True
            raise
        self.offsets = [one.offset for one in said]
        self._agreed, self._last = agreement(said, self._pad)
        if self._agreed > 0 and not self._hand and not self._served:
            self._last = True
            raise UpstreamError(
                f"rank {self._ranks.rank} has no batch to pad with: its shard has too "
                "few examples for one."
            )

    def _hear(self) -> list[Said]:
        assert self._round is not None
        said = self._round.wait()
        self._round = None
        return said

    def _check(self, said: list[Said]) -> None:
        if any(one.state == FAILED for one in said):
            mine = None if self._error is None else str(self._error)
            failure = self._ranks.failure(said, mine)
            raise failure if self._error is None else self._error
        for rank, one in enumerate(said):
            if one.state == LEFT:
                raise UpstreamError(
                    f"rank {rank} has left its loop in epoch {one.epoch}; every rank "
                    "must take as many steps."
                )
        epochs = [one.epoch for one in said]
        if len(set(epochs)) > 1:
            raise UpstreamError(
                f"the ranks are in different epochs, {epochs}: every rank must begin "
                "the same epochs."
            )

    # ---- the end

    def supersede(self) -> None:
        """Ends this epoch for good; waits until upstream's current call returns."""
        self._superseded = True
        self.stop()
        self._epoch.supersede()

    def stop(self) -> None:
        """Tells upstream's thread to end, and the others that this rank has left."""
        self._epoch.stop()
        if not self._last:
            self._last = True
            self._ranks.leave(self._round, self._said(LEFT), self._pad)
            self._round = None
        self._agreed = 0
        self._hand.clear()

    def __del__(self) -> None:
        if hasattr(self, "offsets"):
            with contextlib.suppress(EchobufError, RuntimeError):
                self.stop()
