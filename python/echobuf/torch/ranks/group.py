"""Ranks of torch.distributed, and the store that they meet in."""

from __future__ import annotations

import weakref
import zlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from echobuf.errors import OptionError
from echobuf.torch.ranks.meeting import Meeting
from echobuf.torch.ranks.roll import Roll

_ANSWER_S = 10.0  # that the store has to answer


def meet(
    group: Any, *, why: str = "`uneven` is given", instead: str = "leave `uneven` out"
) -> Meeting:
    """The ranks of a process group, for one loader.

    They use the store that `init_process_group` has made, over a connection of their
    own: nothing of theirs stands in the order of the training's collectives, nothing
    has to be waited for at the end, and each may come and go when it likes. Every rank
    makes its loaders for a group in the same order.

    Args:
        group: of the training; None: all ranks.
        why: there must be one.
        instead: what else to do.

    Raises:
        OptionError: there is no process group, or this rank is not in it.
        UpstreamError: the store does not answer.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise OptionError(
            f"{why}, but there is no process group: call "
            "torch.distributed.init_process_group first (torchrun sets what it "
            f"needs), or {instead}."
        )
    members, own = _members(group), dist.get_rank()
    if own not in members:
        raise OptionError(f"`group` is {group!r}, which this rank is not in.")
    joined = _join(members, members.index(own))
    number = joined.store.add(f"made by {own}", 1)
    store = dist.distributed_c10d.PrefixStore(str(number), joined.store)
    return Meeting(store, joined.roll, number, joined.timeout)


@dataclass(frozen=True)
class _Joined:
    """A group as this process sees it, until its store goes.

    Attributes:
        store: for this group, over a connection of this process's loaders.
        roll: of its ranks.
        timeout: seconds that collectives have.
    """

    store: Any
    roll: Roll
    timeout: float


# Under the default store, which goes with the process group.
_joined: weakref.WeakKeyDictionary[Any, dict[tuple[int, ...], _Joined]]
_joined = weakref.WeakKeyDictionary()
_clones: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _join(members: list[int], rank: int) -> _Joined:
    default: Any = dist.distributed_c10d._get_default_store()
    groups = _joined.setdefault(default, {})
    if tuple(members) not in groups:
        if default not in _clones:
            _clones[default] = _clone(default)
        name = f"echobuf/{zlib.crc32(repr(members).encode()):08x}"
        store = dist.distributed_c10d.PrefixStore(name, _clones[default])
        roll = Roll(store, members, rank)
        groups[tuple(members)] = _Joined(store, roll, default.timeout.total_seconds())
    return groups[tuple(members)]


def _clone(default: Any) -> Any:
    """A connection of our own: else calls of other threads are waited for."""
    try:
        store = default.clone()
    except (AttributeError, RuntimeError):  # older torch; stores without it
        return default
    store.set_timeout(timedelta(seconds=_ANSWER_S))
    return store


def _members(group: Any) -> list[int]:
    whole = dist.group.WORLD if group is None else group
    try:
        return list(dist.get_process_group_ranks(whole))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise OptionError(
            f"`group` is {group!r}; it must be a process group of torch.distributed "
            "that this rank is in."
        ) from error
