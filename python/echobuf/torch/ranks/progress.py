"""How far a rank has come in an epoch, for its states."""

from __future__ import annotations

from dataclasses import dataclass, replace

from echobuf.torch.ranks.place import Place, State


@dataclass
class Progress:
    """Outlives the iterator: a state may be taken when the loop has been left.

    Attributes:
        epoch: its number.
        place: after the batches that were handed out.
        before: batches of this epoch that were handed out before it was gone on with.
        done: the last batch of the epoch is out, on all ranks.
    """

    epoch: int
    place: Place
    before: int = 0
    done: bool = False

    def hand_out(self, position: State) -> None:
        """One batch more is out, after which the buffer is at `position`."""
        self.place = replace(
            self.place,
            batches=self.place.batches + 1,
            offset=position["fresh_offset"],
            position=position["position"],
        )

    def hand_out_last(self) -> None:
        """One batch more is out: this rank's last, for the first time or again."""
        batches = self.place.batches + 1
        self.place = replace(self.place, batches=batches, again=True)
