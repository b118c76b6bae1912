"""One epoch of a loader, as its ranks talk about it."""

from __future__ import annotations

import contextlib
from typing import Any

from echobuf.errors import OptionError, StateError, UpstreamError
from echobuf.torch.ranks.meeting import Meeting
from echobuf.torch.ranks.place import Place
from echobuf.torch.ranks.record import Record
from echobuf.torch.ranks.words import in_words, per_rank


class Session:
    """What ranks say to each other from one `iter` of a loader to the next.

    Each rank has a record, and notes of where it was at its last batches, which it
    alone writes.

    Args:
        meeting: of these ranks.
        number: of the `iter`, the same on all ranks.
        apart: batches that ranks may be apart, at most.
    """

    def __init__(self, meeting: Meeting, number: int, apart: int) -> None:
        self.meeting = meeting
        self._number = number
        self._key = f"{number}/record"
        self._mine = f"{self._key}/{meeting.rank}"
        self._notes = apart + 1
        self._keys = {self._mine}  # that this rank has written

    def begin(
        self, epoch: int, batches: int, place: Place, arguments: dict[str, Any]
    ) -> None:
        """Waits until all ranks have begun, and checks that they have begun the same.

        Args:
            epoch: its number.
            batches: handed out in this epoch before, by whoever took the state that
                was loaded.
            place: where this rank goes on.
            arguments: of the loader; None where one is not known.

        Raises:
            OptionError: ranks have different arguments, or are in different epochs.
            StateError: they go on from different batches.
            UpstreamError: a rank could not begin, or is gone.
        """
        self.write(Record(), place)
        self._say(
            {
                "epoch": epoch,
                "batches": batches,
                "base": place.base,
                "arguments": arguments,
            }
        )
        said = self._hear()
        failed = [(rank, one["failed"]) for rank, one in said if "failed" in one]
        if failed:
            raise UpstreamError(
                "; ".join(f"rank {rank} failed: {why}" for rank, why in failed)
            )
        _check_same(said)

    def cannot_begin(self, error: BaseException) -> None:
        """Tells the others, who wait in `begin`, why this rank does not come."""
        with contextlib.suppress(UpstreamError):  # nobody is there to be told
            self.write(Record())
            self._say({"failed": in_words(error)})

    def _say(self, what: dict[str, Any]) -> None:
        self._set({f"{self._number}/begin/{self.meeting.rank}": what})

    def _set(self, values: dict[str, Any]) -> None:
        self._keys.update(values)
        self.meeting.set(values)

    def _hear(self) -> list[tuple[int, dict[str, Any]]]:
        prefix = f"{self._number}/begin"
        said = self.meeting.wait_for(
            lambda: self.meeting.get_all(prefix),
            lambda: self.meeting.missing(prefix) + " to begin an epoch",
        )
        self.meeting.all_have_come()
        return list(zip(self.meeting.members, said, strict=True))

    def write(self, record: Record | None, place: Place | None = None) -> None:
        """Says how it stands here, and where this rank is now; what is not None."""
        said: dict[str, Any] = {}
        if record is not None:
            said[self._mine] = record.as_list()
        if place is not None:
            said[self._note_key(self.meeting.rank, place.batches)] = place.as_dict()
        if said:
            self._set(said)

    def read(self) -> list[Record]:
        """How it stands with each rank."""
        return [Record.from_list(one) for one in self.meeting.read_all(self._key)]

    # ---- where ranks are

    def places(self, batches: int) -> list[Place]:
        """Where each rank was after so many batches; or before, if it is not there."""
        slot = f"{self._number}/place {batches % self._notes}"
        kept = self.meeting.get_all(slot) or [None] * self.meeting.size
        return [
            Place.from_dict(one)
            if one is not None and one["batches"] == batches
            else self._place_before(rank, batches)
            for rank, one in enumerate(kept)
        ]

    def _place_before(self, rank: int, batches: int) -> Place:
        for at in range(batches, max(-1, batches - self._notes), -1):
            kept = self.meeting.get(self._note_key(rank, at))
            if kept is not None and kept["batches"] == at:
                return Place.from_dict(kept)
        raise UpstreamError(f"rank {self.meeting.members[rank]} is too far behind.")

    def _note_key(self, rank: int, batches: int) -> str:
        return f"{self._number}/place {batches % self._notes}/{rank}"

    def forget(self) -> None:
        """Nobody reads what this rank has said here any more."""
        for key in self._keys:
            self.meeting.delete(key)


def _check_same(said: list[tuple[int, dict[str, Any]]]) -> None:
    for name in said[0][1]["arguments"]:
        values = [(rank, one["arguments"].get(name)) for rank, one in said]
        known = [value for _, value in values if value is not None]
        if any(value != known[0] for value in known):
            raise OptionError(
                f"`{name}` differs between ranks ({per_rank(values)}); make the loader "
                "with the same arguments on all of them."
            )
    epochs = [(rank, one["epoch"]) for rank, one in said]
    if len({epoch for _, epoch in epochs}) > 1:
        raise OptionError(
            f"the ranks are in different epochs ({per_rank(epochs)}); say the same "
            "`set_epoch` on all of them, or load states taken at the same batch."
        )
    starts = [(rank, one["base"]) for rank, one in said]
    if len({start for _, start in starts}) > 1:
        raise StateError(
            "the ranks begin at different examples of their shards "
            f"({per_rank(starts)}); load the same state on all of them."
        )
    batches = [(rank, one["batches"]) for rank, one in said]
    if len({count for _, count in batches}) > 1:
        raise StateError(
            "the ranks go on from different batches of the epoch "
            f"({per_rank(batches)}); load states taken at the same batch on all of "
            "them."
        )
