"""Which ranks do not answer any more, as all processes of a rank know it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from echobuf.cache.shared import SharedMemory
from echobuf.errors import UpstreamError


class Losses:
    """Noted by whichever process finds out first.

    Args:
        members: the ranks, as the whole job numbers them.
        on_lost: "storage" or "raise".
    """

    def __init__(self, members: Sequence[int], on_lost: str) -> None:
        self._members = members
        self._raises = on_lost == "raise"
        self._memory = SharedMemory(len(members))

    def __contains__(self, rank: int) -> bool:
        return self._memory.view[rank] != 0

    def ranks(self) -> list[int]:
        """All that are lost."""
        return [rank for rank, lost in enumerate(self._memory.view) if lost]

    def names(self) -> tuple[int, ...]:
        """The same, as the whole job numbers them."""
        return tuple(self._members[rank] for rank in self.ranks())

    def note(self, rank: int, why: str) -> None:
        """From now on this rank is not asked any more; says so once.

        Raises:
            UpstreamError: as chosen.
        """
        known = rank in self
        self._memory.view[rank] = 1
        self.refuse()
        if not known:
            warnings.warn(
                f"rank {self._members[rank]} does not answer ({why}); its share of the "
                "cache is read from the source from now on.",
                RuntimeWarning,
                stacklevel=2,
            )

    def refuse(self) -> None:
        """Raises `UpstreamError` where a rank is lost and that was chosen."""
        if self._raises and self.ranks():
            names = ", ".join(map(str, self.names()))
            raise UpstreamError(
                f"rank {names} of the cache does not answer and seems to be gone; with "
                "`on_lost='storage'` the others would read its share from the source."
            )
