"""What a rank says of an epoch, and what follows from what all of them say."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echobuf.errors import UpstreamError


class Standing(enum.IntEnum):
    """Whether more batches come from a rank."""

    ON = 0  # perhaps
    ENDED = 1  # no: its shard is used up
    BARE = 2  # no, and it has no batch to pad with
    FAILED = 3  # no: its upstream has failed
    LEFT = 4  # no: its loop was left
    ALONE = 5  # no: it was told that another one is gone


@dataclass
class Record:
    """What a rank says of an epoch.

    Attributes:
        count: batches that it surely hands out: up to which others may go.
        standing: whether there will be more than these.
        why: of a failure, in words.
    """

    count: int = 0
    standing: Standing = Standing.ON
    why: str = ""

    def as_list(self) -> list[Any]:
        """For JSON."""
        return [self.count, self.standing.value, self.why]

    @classmethod
    def from_list(cls, said: list[Any]) -> Record:
        """The reverse."""
        count, standing, why = said
        return cls(count, Standing(standing), why)


class Verdict(enum.Enum):
    """What becomes of a batch."""

    GO = 0  # all ranks hand it out
    WAIT = 1  # not known yet
    END = 2  # the epoch has ended before it
    FAIL = 3  # a rank will not come to it


_FINE = {Standing.ON, Standing.ENDED, Standing.BARE}


def judge(batch: int, records: Sequence[Record], pad: bool) -> Verdict:
    """What becomes of batch number `batch`, from 1 on, whose predecessors have gone.

    Every rank comes to the same, at whatever time it looks: a count only grows until a
    rank does not go on.
    """
    behind = [one.standing for one in records if one.count < batch]
    if not _FINE.issuperset(behind):
        return Verdict.FAIL
    if pad:
        return _judge_padded(behind, len(records))
    if not behind:
        return Verdict.GO
    ended = Standing.ENDED in behind or Standing.BARE in behind
    return Verdict.END if ended else Verdict.WAIT


def _judge_padded(behind: list[Standing], ranks: int) -> Verdict:
    if Standing.ON in behind:
        return Verdict.WAIT
    if len(behind) == ranks:
        return Verdict.END
    return Verdict.FAIL if Standing.BARE in behind else Verdict.GO


def explain(
    batch: int, records: Sequence[Record], names: Sequence[int]
) -> UpstreamError:
    """The error for `Verdict.FAIL`.

    Args:
        batch: that does not come.
        records: of all ranks.
        names: the number of each rank.
    """
    said = []
    for record, name in zip(records, names, strict=True):
        if record.count >= batch:
            continue
        if record.standing is Standing.FAILED:
            said.append(f"rank {name} failed: {record.why}")
        elif record.standing is Standing.ALONE and record.why not in said:
            said.append(record.why)
        elif record.standing is Standing.LEFT:
            said.append(
                f"rank {name} has left its loop after {record.count} batches; every "
                "rank must take as many steps."
            )
        elif record.standing is Standing.BARE:
            said.append(
                f"rank {name} has no batch to pad with: its shard has too few "
                "examples for one."
            )
    return UpstreamError("; ".join(said))
