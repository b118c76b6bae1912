"""How the ranks of a cache find each other, and see that they have made the same."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from echobuf.cache.distributed import address, frames
from echobuf.errors import OptionError, UpstreamError
from echobuf.ranks.json_store import format_error, format_per_rank
from echobuf.ranks.liveness import Process
from echobuf.ranks.store import RankStore, join_group


def meet_ranks(group: Any) -> RankStore:
    """The ranks of a process group.

    Raises:
        OptionError: there is none.
    """
    return join_group(
        group,
        reason="a `PartitionedDataset` is made",
        instead="use `echobuf.cache.CachedDataset`, which needs none",
    )


def introduce(
    rank_store: RankStore, host: str | None, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """What a rank says of itself.

    Args:
        rank_store: of the ranks.
        host: where it is reached; None: to be found out.
        arguments: of its cache, which must be the same on all ranks.
    """
    return {
        "arguments": arguments,
        "host": host,
        "machine": Process.current().machine,
        "near": address.near(rank_store.torch_store),
        "token": secrets.token_hex(frames.TOKEN_BYTES),
    }


def token_of(said: Sequence[Mapping[str, Any]]) -> bytes:
    """What all ranks of this job know, and nobody else."""
    return bytes.fromhex(said[0]["token"])


def host_of(rank: int, said: Sequence[Mapping[str, Any]]) -> str:
    """Where a rank is reached.

    Raises:
        OptionError: that is not to be found out.
    """
    if said[rank]["host"] is not None:
        return str(said[rank]["host"])
    near, machines = ([one[key] for one in said] for key in ("near", "machine"))
    found = address.choose(rank, near, machines)
    if found is None:
        raise OptionError(
            "`host` is None, and there are ranks on other machines, but none of this "
            "machine's addresses that they might reach was found; say `host=`, one of "
            "its addresses."
        )
    return found


def tell_all(rank_store: RankStore, key: str, make: Callable[[], Any]) -> list[Any]:
    """What each rank has made, or the error of the one that could not.

    Raises:
        UpstreamError: another rank could not make its own.
        Exception: that of `make`, which the others are told of.
    """
    mine = f"{key}/{rank_store.rank}"
    try:
        made = make()
    except Exception as error:
        with contextlib.suppress(UpstreamError):  # nobody is there to be told
            rank_store.set({mine: {"failed": format_error(error)}})
        raise
    rank_store.set({mine: {"made": made}})
    said = rank_store.wait_for(
        lambda: rank_store.get_all(key),
        lambda: rank_store.missing(key) + " to make its cache",
    )
    rank_store.liveness.look_up()
    failed = [
        f"rank {rank} could not make its cache: {one['failed']}"
        for rank, one in zip(rank_store.members, said, strict=True)
        if "failed" in one
    ]
    if failed:
        raise UpstreamError("; ".join(failed))
    return [one["made"] for one in said]


def check_same(rank_store: RankStore, arguments: Sequence[Mapping[str, Any]]) -> None:
    """Sees that all ranks have been told the same.

    Raises:
        OptionError: they have not.
    """
    for name in arguments[0]:
        values = [each[name] for each in arguments]
        if any(value != values[0] for value in values):
            told = format_per_rank(list(zip(rank_store.members, values, strict=True)))
            raise OptionError(
                f"`{name}` differs between ranks ({told}); it must be the same on all "
                "of them."
            )
