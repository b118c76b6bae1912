"""How far a rank has come in an epoch, for its states."""

from __future__ import annotations

from dataclasses import dataclass, replace

from echobuf.torch.ranks.place import Place, State
from echobuf.upstream_state import KEY, UpstreamState


@dataclass
class Progress:
    """Outlives the iterator: a state may be taken when the loop has been left.

    Attributes:
        epoch: its number.
        place: after the batches that were handed out.
        before: batches of this epoch that were handed out before it was gone on with.
        upstream: its state where the place needs it from, if it has one.
        done: the last batch of the epoch is out, on all ranks.
    """

    epoch: int
    place: Place
    before: int = 0
    upstream: UpstreamState | None = None
    done: bool = False

    def hand_out(self, position: State) -> None:
        """One batch more is out, after which the buffer is at `position`."""
        self.place = replace(
            self.place,
            batches=self.place.batches + 1,
            offset=position["fresh_offset"],
            position=position["position"],
        )
        self.upstream = position.get(KEY)

    def hand_out_last(self) -> None:
        """One batch more is out: this rank's last, for the first time or again."""
        batches = self.place.batches + 1
        self.place = replace(self.place, batches=batches, again=True)
