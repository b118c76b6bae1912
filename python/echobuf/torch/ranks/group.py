"""Ranks of torch.distributed, and the store that they meet in."""

from __future__ import annotations

import zlib
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from echobuf.errors import OptionError
from echobuf.torch.ranks.meeting import Meeting

_ANSWER_S = 10.0  # that the store has to answer


def meet(group: Any) -> Meeting:
    """The ranks of a process group, for one loader.

    They use the store that `init_process_group` has made, over a connection of their
    own: nothing of theirs stands in the order of the training's collectives, nothing
    has to be waited for at the end, and each may come and go when it likes. Every rank
    makes its loaders for a group in the same order.

    Args:
        group: of the training; None: all ranks.

    Raises:
        OptionError: there is no process group, or this rank is not in it.
        UpstreamError: the store does not answer.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise OptionError(
            "`uneven` is given, but there is no process group: call "
            "torch.distributed.init_process_group first (torchrun sets what it "
            "needs), or leave `uneven` out."
        )
    members, own = _members(group), dist.get_rank()
    if own not in members:
        raise OptionError(f"`group` is {group!r}, which this rank is not in.")
    store: Any = dist.distributed_c10d._get_default_store()
    if hasattr(store, "clone"):  # else calls of other threads are waited for
        store = store.clone()
        store.set_timeout(timedelta(seconds=_ANSWER_S))
    name = f"echobuf/{zlib.crc32(repr(members).encode()):08x}"
    number = store.add(f"{name}/made by {own}", 1)
    own_store = dist.distributed_c10d.PrefixStore(f"{name}/{number}", store)
    return Meeting(own_store, members, members.index(own))


def _members(group: Any) -> list[int]:
    whole = dist.group.WORLD if group is None else group
    try:
        return list(dist.get_process_group_ranks(whole))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise OptionError(
            f"`group` is {group!r}; it must be a process group of torch.distributed "
            "that this rank is in."
        ) from error
