"""Going on with a state that was taken on another number of ranks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from echobuf import state
from echobuf.torch.ranks.place import Place, State


def restart(position: State, places: Sequence[Place], size: int, *, pad: bool) -> State:
    """Begins at the first example that a rank still needed; warns.

    Shards are taken to be every n-th example: number i of rank r is example i * n + r.

    Args:
        position: of one of the ranks, with its arguments.
        places: where all ranks were, at the same batch or somewhat before.
        size: the number of ranks now.
        pad: begin a batch of each rank earlier, so that each has one to pad with.
    """
    before = len(places)
    arguments = position["arguments"]
    # A batch of a shard holds every n-th example of a stretch: whole stretches count.
    whole = arguments["unit"] == "batch"
    shifts = [0] * before if whole else list(range(before))
    start = min(
        place.needed * before + shift
        for place, shift in zip(places, shifts, strict=True)
    )
    start //= size
    if pad:
        start = max(0, start - (1 if whole else arguments["batch_size"]))
    _warn(
        start,
        _served_again(places, shifts, start * size, arguments),
        before,
        size,
        whole,
    )
    return {**state.start_of(position["epoch"]), "base": start, "arguments": arguments}


def _served_again(
    places: Sequence[Place], shifts: Sequence[int], start: int, arguments: State
) -> int:
    """How many that are served again have been served, at most."""
    before = len(places)
    whole = arguments["unit"] == "batch"
    batch_size = 1 if whole else arguments["batch_size"]
    latest = max(place.batches for place in places)
    again = 0
    for place, shift in zip(places, shifts, strict=True):
        # A stretch that begins before the start may be served again in part.
        done = (start - shift + (0 if whole else before - 1)) // before
        # A place of some batches ago: what these have served is not known.
        served = place.served + (latest - place.batches) * batch_size
        again += max(0, served - done)
    return again


def _warn(start: int, again: int, before: int, size: int, whole: bool) -> None:
    one, many = ("batch", "batches") if whole else ("example", "examples")
    ranks = "one rank" if before == 1 else f"{before} ranks"
    warnings.warn(
        f"the state was taken on {ranks}, and there are {size} now: the epoch goes on "
        f"with fresh {one} {start * size}; up to {again} fresh {many} that have been "
        "served, those in the windows among them, are served again, as often as all "
        "others.",
        stacklevel=6,
    )
