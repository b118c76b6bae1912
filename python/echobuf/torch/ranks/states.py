"""States of ranks: each says where all of them were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.distributed as dist

from echobuf import state
from echobuf.errors import StateError
from echobuf.torch.ranks.place import Place, State
from echobuf.torch.ranks.progress import Progress
from echobuf.torch.ranks.resharding import restart
from echobuf.upstream_state import KEY

_ALSO = ("base", "ranks", "upstream")


def of_progress(progress: Progress, rank: int, places: list[Place] | None) -> State:
    """The position of a loader of one rank.

    Args:
        progress: of this rank.
        rank: which one it is.
        places: of all, at this batch or somewhat before; None if that is not known.
    """
    if progress.done:
        return state.start_of(progress.epoch + 1)
    own = progress.place
    kept = None if places is None else [place.as_dict() for place in places]
    upstream = {} if progress.upstream is None else {KEY: progress.upstream}
    return {
        "epoch": progress.epoch,
        **_position_of(own),
        **upstream,
        "ranks": {
            "rank": rank,
            "batches": progress.before + own.batches,
            "own": own.as_dict(),
            "places": kept,
        },
    }


def _position_of(place: Place) -> State:
    return {
        "fresh_offset": place.offset,
        "position": place.position,
        "base": place.base,
    }


def progress_from(resume: State | None, epoch: int, seed: int) -> Progress:
    """The progress of an epoch that begins, or goes on at a position."""
    position = state.start_of(epoch) if resume is None else resume
    ranks = position.get("ranks") or {}
    place = Place(
        0,
        position["fresh_offset"],
        position["position"],
        position.get("base", 0),
        bool(ranks.get("own", {}).get("again", False)),
        seed,
    )
    before = ranks.get("batches", 0)
    return Progress(epoch, place, before=before, upstream=position.get(KEY))


def unseal(sealed: Any, arguments: State, rank: int, size: int, *, pad: bool) -> State:
    """The position that this rank goes on from, with the arguments that it had.

    Args:
        sealed: the state.
        arguments: of the loader.
        rank: which one it is.
        size: how many there are.
        pad: each rank must have a batch left, to pad with.

    Raises:
        StateError: it is damaged, of other arguments, or does not say where this rank
            was.
    """
    if not isinstance(sealed, Mapping) or "ranks" not in sealed:
        return _unseal_of_one(sealed, arguments, size, pad)
    # Ranks may have different seeds; that of each is in its place.
    unseeded = {name: value for name, value in arguments.items() if name != "seed"}
    position = state.unseal(sealed, unseeded, also=_ALSO)
    position["arguments"] = {**position["arguments"], "seed": arguments["seed"]}
    ranks = position["ranks"]
    own, places = _read(ranks)
    if len(places or ()) != size:
        return restart(position, places or _missing(), size, pad=pad)
    place = own if ranks["rank"] == rank else (places or [])[rank]
    if place.batches != own.batches:
        raise StateError(
            f"`state` is that of rank {ranks['rank']}, taken when rank {rank} had not "
            "come as far; take it after a step that all ranks take together, or load "
            "on each rank its own."
        )
    if place.seed != arguments["seed"]:
        raise StateError(
            f"`state` was taken with `seed` {place.seed!r} on rank {rank}, but here it "
            f"is {arguments['seed']!r}; make the loader with the same arguments."
        )
    mine = {**ranks, "rank": rank, "own": place.as_dict()}
    return {**position, **_position_of(place), "ranks": mine}


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
    return unseal(sealed, arguments, 0, 1, pad=False)


def _unseal_of_one(sealed: Any, arguments: State, size: int, pad: bool) -> State:
    """A state of a loader that knew of no ranks, or of the start of an epoch."""
    position = state.unseal(sealed, arguments, also=_ALSO)
    if size == 1 or position["position"] is None:
        return position
    place = Place(
        0,
        position["fresh_offset"],
        position["position"],
        position.get("base", 0),
        False,
        arguments["seed"],
    )
    return restart(position, [place], size, pad=pad)


def _read(ranks: Any) -> tuple[Place, list[Place] | None]:
    """The checksum was right; who wrote it may have been another program."""
    try:
        own, kept = Place.from_dict(ranks["own"]), ranks["places"]
        places = None if kept is None else [Place.from_dict(one) for one in kept]
        size = len(places) if places else 1 + ranks["rank"]
        sound = 0 <= ranks["rank"] < size and ranks["batches"] >= 0
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise StateError(
            "`state` is damaged: what it says of ranks makes no sense. Use a state "
            "that `state_dict()` returned, unchanged."
        )
    return own, places


def _missing() -> list[Place]:
    raise StateError(
        "`state` does not say where the other ranks were: the store of their process "
        "group was gone when it was taken. Take it before the ranks end."
    )
