"""How far a rank has come in an epoch, for its states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from echobuf.torch.ranks.record import Record, Served

State = dict[str, Any]


@dataclass
class Progress:
    """Outlives the iterator: a state may be taken when the loop has been left.

    Attributes:
        epoch: its number.
        position: where a resumed buffer goes on.
        batch_size: examples in a batch; 1 where batches are served whole.
        base: fresh examples of the shard before those that the buffer counts.
        before: batches of this epoch that were handed out before it was gone on with.
        batches: handed out since.
        again: the first batch drawn from `position` was handed out already; it is what
            this rank pads with.
        done: the last batch of the epoch is out, on all ranks.
        others: what each rank was last heard to say.
    """

    epoch: int
    position: State
    batch_size: int
    base: int = 0
    before: int = 0
    batches: int = 0
    again: bool = False
    done: bool = False
    others: Sequence[Record] = field(default_factory=list)

    def served(self) -> Served:
        """How far this rank is."""
        return served_at(self.position, self.base, self.batches)

    def of_all(self, rank: int) -> list[Served]:
        """How far each rank was at this batch: at least to the offset, at most the end.

        What is known of the others may be some batches old.
        """
        known = [self._by_now(record) for record in self.others]
        if known:
            known[rank] = self.served()
        return known or [self.served()]

    def _by_now(self, record: Record) -> Served:
        one = record.served_by(self.batches)
        since = (self.batches - one.batches) * self.batch_size
        return Served(self.batches, one.offset, one.end + since)


def served_at(position: State, base: int, batches: int) -> Served:
    """How far a rank is whose buffer is at `position`."""
    inner = position["position"]
    offset = base + position["fresh_offset"]
    end = offset if inner is None else base + inner["resident_end"]
    return Served(batches, offset, end)
