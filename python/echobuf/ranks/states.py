"""States of loaders on several ranks: each holds the positions of all ranks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch.distributed as dist

from echobuf import state
from echobuf.errors import StateError
from echobuf.state import UPSTREAM_KEY, UpstreamState

State = dict[str, Any]

_ALSO = ("base", "ranks", "upstream")


@dataclass(frozen=True)
class RankPosition:
    """The position of a rank in an epoch, after a number of batches handed out.

    The names of the fields are keys of states and of values in the store.
    """

    batches: int  # handed out, since the epoch was begun or resumed
    # Of the oldest fresh example that the rank's buffer needs, as the buffer counts
    # them
    offset: int
    position: State | None  # of the buffer in the epoch; None: at its start
    base: int  # fresh examples of the shard before those that the buffer counts
    # The first batch drawn from this position was handed out already; this rank pads
    # with it
    again: bool
    seed: int  # of the loader; ranks may have different ones

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

    @classmethod
    def from_dict(cls, fields: Any) -> RankPosition:
        """Return a position; raise `ValueError` if the fields are not those of one."""
        if not isinstance(fields, Mapping):
            raise ValueError(f"{fields!r} is no position")
        try:
            decoded = cls(**fields)
            numbers = (decoded.batches, decoded.offset, decoded.base, decoded.served)
            is_valid = min(numbers) >= 0 and decoded.again in (False, True)
        except (TypeError, KeyError) as error:
            raise ValueError(f"{fields!r} is no position") from error
        if not is_valid:
            raise ValueError(f"{fields!r} is no position")
        return decoded


@dataclass
class Progress:
    """The progress of a rank in an epoch.

    It outlives the iterator: a state may be taken when the loop has been left.

    Attributes:
        epoch: its number.
        at: the rank's position after the batches that were handed out.
        before: batches of this epoch that were handed out before it was resumed.
        upstream: the state of upstream at that position, if upstream has one.
        is_done: the last batch of the epoch was handed out, on all ranks.
    """

    epoch: int
    at: RankPosition
    before: int = 0
    upstream: UpstreamState | None = None
    is_done: bool = False

    def hand_out(self, position: State) -> None:
        """Count a batch handed out, after which the buffer is at `position`."""
        self.at = replace(
            self.at,
            batches=self.at.batches + 1,
            offset=position["fresh_offset"],
            position=position["position"],
        )
        self.upstream = position.get(UPSTREAM_KEY)

    def hand_out_last(self) -> None:
        """Count this rank's last batch, handed out for the first time or again."""
        self.at = replace(self.at, batches=self.at.batches + 1, again=True)


def begin_progress(resume: State | None, epoch: int, seed: int) -> Progress:
    """Return the progress of an epoch that begins, or resumes at a position."""
    position = state.start_of(epoch) if resume is None else resume
    ranks = position.get("ranks") or {}
    at = RankPosition(
        batches=0,
        offset=position["fresh_offset"],
        position=position["position"],
        base=position.get("base", 0),
        again=bool(ranks.get("own", {}).get("again", False)),
        seed=seed,
    )
    before = ranks.get("batches", 0)
    return Progress(epoch, at, before=before, upstream=position.get(UPSTREAM_KEY))


def position_of(
    progress: Progress, rank: int, positions: list[RankPosition] | None
) -> State:
    """Return the position of one rank's loader, for its state.

    Args:
        progress: of this rank.
        rank: its index.
        positions: of all ranks, at this batch or somewhat before; None if not known.
    """
    if progress.is_done:
        return state.start_of(progress.epoch + 1)
    own = progress.at
    kept = None if positions is None else [asdict(each) for each in positions]
    upstream = {} if progress.upstream is None else {UPSTREAM_KEY: progress.upstream}
    return {
        "epoch": progress.epoch,
        **_buffer_position(own),
        **upstream,
        "ranks": {
            "rank": rank,
            "batches": progress.before + own.batches,
            "own": asdict(own),
            "places": kept,
        },
    }


def _buffer_position(at: RankPosition) -> State:
    return {"fresh_offset": at.offset, "position": at.position, "base": at.base}


# ---- loading a state


def unseal(sealed: Any, arguments: State, rank: int, size: int, *, pad: bool) -> State:
    """Return the position from which this rank goes on, with the saved arguments.

    Args:
        sealed: the state.
        arguments: of the loader.
        rank: the index of this rank.
        size: the number of ranks.
        pad: each rank must have a batch left, to pad with.
    """
    if not isinstance(sealed, Mapping) or not sealed.get("ranks"):
        return _unseal_single(sealed, arguments, size, pad)
    # Ranks may have different seeds; that of each is in its position.
    unseeded = {name: value for name, value in arguments.items() if name != "seed"}
    position = state.unseal(sealed, unseeded, also=_ALSO)
    position["arguments"] = {**position["arguments"], "seed": arguments["seed"]}
    ranks = position["ranks"]
    own, positions = _parse(ranks)
    if len(positions or ()) != size:
        return _reshard(position, positions or _raise_missing(), size, pad=pad)
    at = own if ranks["rank"] == rank else (positions or [])[rank]
    if at.batches != own.batches:
        raise StateError(
            f"`state` is that of rank {ranks['rank']}, taken when rank {rank} had not "
            "come as far; take it after a step that all ranks take together, or load "
            "on each rank its own."
        )
    if at.seed != arguments["seed"]:
        raise StateError(
            f"`state` was taken with `seed` {at.seed!r} on rank {rank}, but here it "
            f"is {arguments['seed']!r}; make the loader with the same arguments."
        )
    mine = {**ranks, "rank": rank, "own": asdict(at)}
    return {**position, **_buffer_position(at), "ranks": mine}


def unseal_without_ranks(sealed: Any, arguments: State) -> State:
    """Return the position from which a loader without `uneven` goes on."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise StateError(
            "`state` was taken with `uneven`, and this loader, one of several ranks, "
            "has none; give it the same `uneven`."
        )
    return unseal(sealed, arguments, 0, 1, pad=False)


def _unseal_single(sealed: Any, arguments: State, size: int, pad: bool) -> State:
    """Unseal a state without ranks, or one of the start of an epoch."""
    position = state.unseal(sealed, arguments, also=_ALSO)
    if size == 1 or position["position"] is None:
        return position
    at = RankPosition(
        batches=0,
        offset=position["fresh_offset"],
        position=position["position"],
        base=position.get("base", 0),
        again=False,
        seed=arguments["seed"],
    )
    return _reshard(position, [at], size, pad=pad)


def _parse(ranks: Any) -> tuple[RankPosition, list[RankPosition] | None]:
    """Return this rank's and all ranks' positions.

    The checksum was right, but another program may have written the state.
    """
    try:
        own, kept = RankPosition.from_dict(ranks["own"]), ranks["places"]
        positions = None if kept is None else list(map(RankPosition.from_dict, kept))
        size = len(positions) if positions else 1 + ranks["rank"]
        is_valid = 0 <= ranks["rank"] < size and ranks["batches"] >= 0
    except (TypeError, KeyError, ValueError):
        is_valid = False
    if not is_valid:
        raise StateError(
            "`state` is damaged: its positions of ranks are not valid. Use a state "
            "that `state_dict()` returned, unchanged."
        )
    return own, positions


def _raise_missing() -> list[RankPosition]:
    raise StateError(
        "`state` lacks the positions of the other ranks: the store of their process "
        "group was gone when it was taken. Take it before the ranks end."
    )


# ---- another number of ranks


def _reshard(
    position: State, positions: Sequence[RankPosition], size: int, *, pad: bool
) -> State:
    """Return a start at the first example that a rank still needed; warn.

    Shards are taken to be every n-th example: number i of rank r is example i * n + r.

    Args:
        position: of one of the ranks, with its arguments.
        positions: of all ranks, at the same batch or somewhat before.
        size: the number of ranks now.
        pad: begin a batch of each rank earlier, so that each has one to pad with.
    """
    before = len(positions)
    arguments = position["arguments"]
    # A batch of a shard holds every n-th example of a stretch: whole stretches count.
    is_batch = arguments["unit"] == "batch"
    shifts = [0] * before if is_batch else list(range(before))
    start = min(
        at.needed * before + shift for at, shift in zip(positions, shifts, strict=True)
    )
    start //= size
    if pad:
        start = max(0, start - (1 if is_batch else arguments["batch_size"]))
    again = _count_served_again(positions, shifts, start * size, arguments)
    one, many = ("batch", "batches") if is_batch else ("example", "examples")
    ranks = "one rank" if before == 1 else f"{before} ranks"
    warnings.warn(
        f"the state was taken on {ranks}, and there are {size} now: the epoch goes on "
        f"with fresh {one} {start * size}; up to {again} fresh {many} that have been "
        "served, those in the windows among them, are served again, as often as all "
        "others.",
        stacklevel=5,
    )
    return {**state.start_of(position["epoch"]), "base": start, "arguments": arguments}


def _count_served_again(
    positions: Sequence[RankPosition],
    shifts: Sequence[int],
    start: int,
    arguments: State,
) -> int:
    """Return how many served examples are served again, at most."""
    before = len(positions)
    is_batch = arguments["unit"] == "batch"
    batch_size = 1 if is_batch else arguments["batch_size"]
    latest = max(at.batches for at in positions)
    again = 0
    for at, shift in zip(positions, shifts, strict=True):
        # A stretch that begins before the start may be served again in part.
        done = (start - shift + (0 if is_batch else before - 1)) // before
        # A position of some batches ago: what these have served is not known.
        served = at.served + (latest - at.batches) * batch_size
        again += max(0, served - done)
    return again
