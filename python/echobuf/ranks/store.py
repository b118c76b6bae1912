"""The store that the ranks of a process group share, and waiting for its values."""

from __future__ import annotations

import math
import time
import warnings
import weakref
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

from echobuf.errors import OptionError, UpstreamError
from echobuf.ranks.liveness import JsonStore, Liveness

T = TypeVar("T")

CHECK_S = 0.5  # between checks of the other ranks' liveness during a wait
WARN_S = 60.0  # of a wait, after which a warning names the missing ranks
_PAUSE_S, _LONGEST_PAUSE_S = 2e-5, 1e-3
_PAUSE_PER_RANK_S = 2e-5  # many waiting ranks must not saturate the store
_RESPONSE_S = 10.0  # within which the store must respond


class RankStore(JsonStore):
    """JSON values of one loader's ranks, as one of these ranks reads and writes them.

    By convention a rank writes its own values under `prefix/rank`.

    Args:
        store: of torch.distributed, for this loader alone; all ranks share it.
        liveness: of the ranks.
        number: of the loader, among the loaders of these ranks.
        timeout: seconds after which a wait for a living rank fails.

    Attributes:
        members: the numbers of the ranks in the whole job.
        rank: the index of this rank in `members`.
        size: the number of ranks.
        torch_store: `store`, as given.
        liveness: as given.
    """

    def __init__(
        self, store: Any, liveness: Liveness, number: int, timeout: float
    ) -> None:
        super().__init__(store)
        self.members = liveness.members
        self.rank = liveness.rank
        self.size = len(liveness.members)
        self.torch_store = store
        self.liveness = liveness
        self._number = number
        self._timeout = timeout

    def get_all(self, prefix: str, without: Collection[int] = ()) -> list[Any] | None:
        """Return the ranks' values of `prefix/rank`; None unless each has set it."""
        return self.read_if_set(self._keys(prefix, without))

    def read_all(self, prefix: str) -> list[Any]:
        """Return the ranks' values of `prefix/rank`, which each rank has set."""
        return self.read(self._keys(prefix))

    def _keys(self, prefix: str, without: Collection[int] = ()) -> list[str]:
        return [f"{prefix}/{rank}" for rank in range(self.size) if rank not in without]

    def explain_gone(self, failure: str) -> UpstreamError:
        """Return the error for a store that does not answer."""
        return self.liveness.explain_gone(failure)

    # ---- waiting

    def wait_for(
        self,
        poll: Callable[[], T | None],
        missing: Callable[[], str],
        check: Callable[[], None] | None = None,
    ) -> T:
        """Return the result of `poll`, once that is not None. Ctrl-C gets through.

        Args:
            poll: called again and again.
            missing: returns the text of what is awaited.
            check: raises `UpstreamError` where the wait is in vain; None: where a rank
                is gone.
        """
        begun = time.monotonic()
        next_check, next_warning = begun + CHECK_S, begun + WARN_S
        pause, longest = _PAUSE_S, max(_LONGEST_PAUSE_S, _PAUSE_PER_RANK_S * self.size)
        while (answer := poll()) is None:
            time.sleep(pause)
            pause = min(2 * pause, longest)
            now = time.monotonic()
            if now > next_check:
                try:
                    (check or self.liveness.check)()
                except UpstreamError:
                    # A rank that is gone may have written the awaited value before.
                    if (answer := poll()) is not None:
                        return answer
                    raise
                next_check = now + CHECK_S
            if now > next_warning:
                warnings.warn(
                    f"has waited {WARN_S:.0f} s for {self._describe(missing)}",
                    stacklevel=2,
                )
                next_warning = math.inf
            if now - begun > self._timeout:
                waited = timedelta(seconds=self._timeout)
                raise UpstreamError(f"waited {waited} for {self._describe(missing)}")
        return answer

    def _describe(self, missing: Callable[[], str]) -> str:
        return (
            f"{missing()} (with its loader number {self._number} of these ranks: all "
            "make and use their loaders in the same order)."
        )

    def missing(self, prefix: str) -> str:
        """Return "rank 1" or "ranks 1, 2": those that have not set `prefix/rank`."""
        ranks = [
            str(member)
            for rank, member in enumerate(self.members)
            if self.get(f"{prefix}/{rank}") is None
        ]
        return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(ranks)


# ---- joining a process group


def join_group(
    group: Any,
    *,
    reason: str = "`uneven` is given",
    instead: str = "leave `uneven` out",
) -> RankStore:
    """Return the store that the ranks of a process group share for one loader.

    It uses the store that `init_process_group` has made, over a separate connection: it
    takes no place in the order of the training's collectives, nothing has to be waited
    for at the end, and each rank may join and leave at any time. Every rank makes its
    loaders for a group in the same order.

    Args:
        group: of the training; None: all ranks.
        reason: for needing a process group.
        instead: the alternative to it.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise OptionError(
            f"{reason}, but there is no process group: call "
            "torch.distributed.init_process_group first (torchrun sets what it "
            f"needs), or {instead}."
        )
    members, own = _members(group), dist.get_rank()
    if own not in members:
        raise OptionError(f"`group` is {group!r}, which this rank is not in.")
    joined = _join(members, members.index(own))
    number = joined.store.add(f"made by {own}", 1)
    store = dist.distributed_c10d.PrefixStore(str(number), joined.store)
    return RankStore(store, joined.liveness, number, joined.timeout)


@dataclass(frozen=True)
class _JoinedGroup:
    """A group that this process has joined."""

    store: Any  # for this group, over the connection of this process's loaders
    liveness: Liveness  # of its ranks
    timeout: float  # of collectives, in seconds


# Under the default store: an entry goes with the process group.
_joined: weakref.WeakKeyDictionary[Any, dict[tuple[int, ...], _JoinedGroup]]
_joined = weakref.WeakKeyDictionary()
_clones: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _join(members: list[int], rank: int) -> _JoinedGroup:
    # torch has no public name for it, and may be built without torch.distributed.
    from torch.distributed.distributed_c10d import _get_default_store

    default: Any = _get_default_store()
    groups = _joined.setdefault(default, {})
    if tuple(members) not in groups:
        if default not in _clones:
            _clones[default] = _clone(default)
        name = f"echobuf/{zlib.crc32(repr(members).encode()):08x}"
        store = dist.distributed_c10d.PrefixStore(name, _clones[default])
        groups[tuple(members)] = _JoinedGroup(
            store, Liveness(store, members, rank), default.timeout.total_seconds()
        )
    return groups[tuple(members)]


def _clone(default: Any) -> Any:
    """Return another connection to the store: calls on one wait for each other."""
    try:
        store = default.clone()
    except (AttributeError, RuntimeError):  # older torch; stores without it
        return default
    store.set_timeout(timedelta(seconds=_RESPONSE_S))
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
