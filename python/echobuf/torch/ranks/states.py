"""States of one rank among several, and those taken on another number of ranks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch.distributed as dist

from echobuf import state
from echobuf.errors import StateError
from echobuf.torch.ranks.progress import Progress, served_at

State = dict[str, Any]

_OF_RANK = ("epoch", "fresh_offset", "position", "upstream")


def of_progress(progress: Progress, rank: int, size: int) -> State:
    """The position of a loader of one rank, which says how far the others were."""
    if progress.done:
        return at_start(progress.epoch + 1, rank, size)
    all_served = progress.of_all(rank)
    return {
        **progress.position,
        "base": progress.base,
        "ranks": {
            "rank": rank,
            "batches": progress.before + progress.batches,
            "again": progress.again,
            "offsets": [one.offset for one in all_served],
            "ends": [one.end for one in all_served],
        },
    }


def at_start(epoch: int, rank: int, size: int) -> State:
    """The position at the start of an epoch."""
    return {**state.start_of(epoch), "ranks": _ranks(rank, [0] * size, [0] * size)}


def progress_from(resume: State | None, epoch: int, arguments: State) -> Progress:
    """The progress of an epoch that begins, or goes on at a position."""
    position = state.start_of(epoch) if resume is None else resume
    ranks = position.get("ranks") or {}
    return Progress(
        epoch,
        {key: position[key] for key in _OF_RANK if key in position},
        1 if arguments["unit"] == "batch" else arguments["batch_size"] or 1,
        base=position.get("base", 0),
        before=ranks.get("batches", 0),
        again=ranks.get("again", False),
    )


def unseal(sealed: Any, arguments: State, rank: int, size: int) -> State:
    """The position that this rank goes on from, with the arguments that it had.

    Raises:
        StateError: it is damaged, of other arguments, or of another rank.
    """
    signed = isinstance(sealed, Mapping) and "ranks" in sealed
    if not signed and size == 1:
        return state.unseal(sealed, arguments, also=("base", "upstream"))
    here = size == len(_offsets_of(sealed)) if signed else False
    checked = {
        name: value for name, value in arguments.items() if here or name != "seed"
    }
    position = state.unseal(sealed, checked, also=("base", "ranks", "upstream"))
    ranks = position.get("ranks") or _of_one(position)
    _check(ranks)
    if not here:
        return {
            **_restart(position, ranks, rank, size),
            "arguments": {**position["arguments"], "seed": arguments["seed"]},
        }
    if ranks["rank"] != rank:
        raise StateError(
            f"`state` is that of rank {ranks['rank']}, but this is rank {rank}; each "
            "rank loads its own."
        )
    return position


def unseal_alone(sealed: Any, arguments: State) -> State:
    """The same for a loader without `uneven`, which then must be all there is.

    Raises:
        StateError: as `unseal`; or there are other ranks.
    """
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise StateError(
            "`state` was taken with `uneven`, and this loader, one of several ranks, "
            "has none; say the same `uneven`."
        )
    return unseal(sealed, arguments, 0, 1)


def _offsets_of(sealed: Mapping[str, Any]) -> list[Any]:
    ranks = sealed["ranks"]
    offsets = ranks.get("offsets") if isinstance(ranks, Mapping) else None
    return offsets if isinstance(offsets, list) else []


def _of_one(position: State) -> State:
    """A state of a loader that knew of no ranks."""
    served = served_at(position, position.get("base", 0), 0)
    return _ranks(0, [served.offset], [served.end])


def _ranks(rank: int, offsets: list[int], ends: list[int]) -> State:
    return {
        "rank": rank, "batches": 0, "again": False, "offsets": offsets, "ends": ends,
    }  # fmt: skip


def _check(ranks: State) -> None:
    """The checksum was right; who wrote it may have been another program."""
    try:
        sound = 0 <= ranks["rank"] < len(ranks["offsets"]) == len(ranks["ends"])
        numbers = [ranks["batches"], *ranks["offsets"], *ranks["ends"]]
        sound = sound and min(numbers) >= 0 and ranks["again"] in (False, True)
    except (TypeError, KeyError):
        sound = False
    if not sound:
        raise StateError(
            "`state` is damaged: what it says of ranks makes no sense. Use a state "
            "that `state_dict()` returned, unchanged."
        )


def _restart(position: State, ranks: State, rank: int, size: int) -> State:
    """Begins at the first example that a rank still needed.

    Shards are taken to be every n-th example: number i of rank r is example i * n + r.
    """
    offsets, ends = ranks["offsets"], ranks["ends"]
    before = len(offsets)
    # A batch of a shard holds every n-th example of a stretch: whole stretches count.
    whole = position["arguments"]["unit"] == "batch"
    shifts = [0] * before if whole else list(range(before))
    firsts = [
        offset * before + shift for offset, shift in zip(offsets, shifts, strict=True)
    ]
    start = min(firsts) // size
    # A stretch that begins before the start may be served again in part.
    done = [
        (start * size - shift + (0 if whole else before - 1)) // before
        for shift in shifts
    ]
    again = sum(max(0, end - each) for end, each in zip(ends, done, strict=True))
    if again or position["position"] is not None:
        one, many = ("batch", "batches") if whole else ("example", "examples")
        warnings.warn(
            f"the state was taken on {_count(before)}, and this is rank {rank} of "
            f"{size}: the epoch goes on with fresh {one} {start * size}; up to {again} "
            f"fresh {many} that have been served, those in the windows among them, are "
            "served again, as often as all others.",
            stacklevel=5,
        )
    own = _ranks(rank, [start] * size, [start] * size)
    return {**state.start_of(position["epoch"]), "base": start, "ranks": own}


def _count(ranks: int) -> str:
    return "one rank" if ranks == 1 else f"{ranks} ranks"
