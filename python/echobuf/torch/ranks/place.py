"""Where a rank is in an epoch, as others are told and states keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

State = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a rank is when it has handed out some batches of an epoch.

    Attributes:
        batches: handed out, since the epoch was begun or gone on with.
        offset: of the oldest fresh example that its buffer needs, counted by that.
        position: of the buffer in the epoch; None: at its start.
        base: fresh examples of the shard before those that the buffer counts.
        again: the first batch drawn from there was handed out already; it is what this
            rank pads with.
        seed: of the loader; ranks may have different ones.
    """

    batches: int
    offset: int
    position: State | None
    base: int
    again: bool
    seed: int

    @property
    def needed(self) -> int:
        """The oldest fresh example of the shard that is still needed."""
        return self.base + self.offset

    @property
    def served(self) -> int:
        """Fresh examples of the shard that may have been served, from its start on."""
        if self.position is None:
            return self.needed
        return self.base + int(self.position["resident_end"])

    def as_dict(self) -> State:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Any) -> Place:
        """The reverse.

        Raises:
            ValueError: it is no place.
        """
        if not isinstance(kept, Mapping):
            raise ValueError(f"{kept!r} is no place")
        try:
            place = cls(**kept)
            numbers = (place.batches, place.offset, place.base, place.served)
            sound = min(numbers) >= 0 and place.again in (False, True)
        except (TypeError, KeyError) as error:
            raise ValueError(f"{kept!r} is no place") from error
        if not sound:
            raise ValueError(f"{kept!r} is no place")
        return place
