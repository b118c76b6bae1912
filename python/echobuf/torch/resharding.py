"""States that were taken on another number of ranks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from echobuf import state
from echobuf.errors import StateError

State = dict[str, Any]


def signed(sealed: State, rank: int, offsets: list[int]) -> State:
    """A rank's state that says how far each rank was, and which one this is."""
    return {**sealed, "ranks": {"rank": rank, "offsets": offsets}}


def for_these_ranks(signed: Any, rank: int, size: int) -> Any:
    """The state that this rank goes on from.

    Raises:
        StateError: it is that of another rank, or damaged.
    """
    if not isinstance(signed, Mapping) or "ranks" not in signed:
        return signed if size == 1 else _of_one(signed, rank, size)
    sealed = {key: value for key, value in signed.items() if key != "ranks"}
    theirs, offsets = _read(signed["ranks"])
    if len(offsets) == size:
        if theirs != rank:
            raise StateError(
                f"`state` is that of rank {theirs}, but this is rank {rank}; each rank "
                "loads its own."
            )
        return sealed
    return _restart(sealed, offsets, size)


def _of_one(sealed: Any, rank: int, size: int) -> Any:
    if not isinstance(sealed, Mapping) or "fresh_offset" not in sealed:
        return sealed  # refused later
    return _restart(dict(sealed), [sealed["fresh_offset"]], size)


def _restart(sealed: State, offsets: list[int], size: int) -> State:
    """Begins at the first example that was needed, in shards of every n-th."""
    first = min(offset * len(offsets) + rank for rank, offset in enumerate(offsets))
    start = first // size
    again = sum(offsets) - start * size
    if again > 0 or sealed.get("position") is not None:
        warnings.warn(
            f"the state was taken on {len(offsets)} ranks, and these are {size}: the "
            f"epoch goes on from example {start * size}, and at least {max(again, 0)} "
            "fresh examples are served again.",
            stacklevel=4,
        )
    body = {
        "epoch": sealed["epoch"], "fresh_offset": start, "position": None,
    }  # fmt: skip
    return state.seal(sealed["arguments"], body)


def _read(ranks: Any) -> tuple[int, list[int]]:
    try:
        rank, offsets = int(ranks["rank"]), [int(o) for o in ranks["offsets"]]
    except (TypeError, ValueError, KeyError):
        rank, offsets = 0, []
    if not 0 <= rank < len(offsets) or min(offsets) < 0:
        raise StateError(
            "`state` is damaged: what it says of ranks makes no sense. Use a state "
            "that `state_dict()` returned, unchanged."
        )
    return rank, offsets
