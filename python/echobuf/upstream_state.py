"""The state of an upstream that has one, as part of a loader's."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from echobuf.errors import StateError
from echobuf.plain import decode

KEY = "upstream"


@dataclass(frozen=True)
class UpstreamState:
    """A checkpoint of upstream, between two items.

    Attributes:
        offset: fresh examples that it had yielded in the epoch; None at the end of the
            epoch before.
        encoded: its state, and what belongs to it, as JSON holds it.
        place: the rank of the process and the number of ranks.
    """

    offset: int | None
    encoded: Any
    place: tuple[int, int] = (0, 1)

    def sealed(self) -> dict[str, Any]:
        """Return the form that is kept, with a checksum of its own."""
        return {**self._body(), "checksum": self._checksum}

    def _body(self) -> dict[str, Any]:
        place = list(self.place)
        return {"offset": self.offset, "place": place, "state": self.encoded}

    @functools.cached_property
    def _checksum(self) -> int:
        text = json.dumps(self._body(), sort_keys=True, allow_nan=False)
        return zlib.crc32(text.encode())


def unseal(sealed: Any, most: int) -> UpstreamState:
    """Return the reverse of `UpstreamState.sealed`.

    Args:
        sealed: what stands in a loader's state.
        most: its offset at most.

    Raises:
        StateError: it is damaged.
    """
    try:
        found = UpstreamState(sealed["offset"], sealed["state"], tuple(sealed["place"]))
        sound = isinstance(sealed, Mapping) and sealed == found.sealed()
        sound = sound and 0 <= (found.offset or 0) <= most and len(found.place) == 2
        decode(found.encoded)
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise StateError(
            '`state["upstream"]` is damaged. Use a state that `state_dict()` returned, '
            "unchanged, or leave this key out: upstream is then read from its start."
        )
    return found
