"""The sessions of a loader's ranks, one for each epoch that is begun."""

from __future__ import annotations

from echobuf.torch.ranks.meeting import Meeting
from echobuf.torch.ranks.place import State
from echobuf.torch.ranks.progress import Progress
from echobuf.torch.ranks.session import Session


class Sessions:
    """Begins them, in the same order on all ranks, and keeps the last one.

    Args:
        meeting: of these ranks.
        uneven: "drop" or "pad".
        ahead: batches that a rank has in hand.

    Attributes:
        last: of the epoch that was begun last.
        progress: of this rank in it.
    """

    def __init__(self, meeting: Meeting, uneven: str, ahead: int) -> None:
        self._meeting = meeting
        self._uneven = uneven
        self._apart = 2 * ahead + 4
        self._count = 0
        self.last: Session | None = None
        self.progress: Progress | None = None

    def begin(self) -> Session:
        """What the ranks say to each other from now on."""
        self._count += 1
        return Session(self._meeting, self._count, self._apart)

    def compared(self, arguments: State) -> State:
        """What must be the same on all ranks: all but the seed."""
        same = {name: arguments[name] for name in arguments if name != "seed"}
        return {**same, "uneven": self._uneven}

    def follow(self, session: Session, progress: Progress) -> None:
        """States are of this epoch from now on."""
        self.last, self.progress = session, progress
