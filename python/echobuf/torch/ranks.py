"""The ranks that draw together: what they say to each other, beside the training.

They speak over a gloo group of their own, so that nothing of theirs stands in the order
of the training's collectives, whatever backend these use.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from echobuf.errors import OptionError, UpstreamError
from echobuf.torch.resharding import signed

ON, ENDED, FAILED, LEFT = range(4)  # may have more; has no more; why it has no more

_BEAT_S = 0.5
_SILENT_S = 2.0
_made = itertools.count()


@dataclass(frozen=True)
class Said:
    """What a rank has said in a round.

    Attributes:
        epoch: that it is in.
        count: batches that it has in hand and that were not agreed on before.
        state: ON, ENDED, FAILED, or LEFT: its loop was left.
        offset: of the oldest fresh example that it still needs.
    """

    epoch: int
    count: int
    state: int
    offset: int


class Round:
    """Something that all ranks say, under way."""

    def __init__(self, ranks: Ranks, said: Said) -> None:
        self._ranks = ranks
        mine = torch.tensor([said.epoch, said.count, said.state, said.offset])
        self._all = [torch.empty_like(mine) for _ in range(ranks.size)]
        try:
            self._work: Any = dist.all_gather(
                self._all, mine, group=ranks.group, async_op=True
            )
        except RuntimeError as error:
            raise ranks.explain(error) from error

    def wait(self) -> list[Said]:
        """What each rank has said. Ctrl-C gets through.

        Raises:
            UpstreamError: a rank is gone; names it.
        """
        pause = 2e-5
        while not self._work.is_completed():
            time.sleep(pause)
            pause = min(2 * pause, 5e-3)
        try:
            self._work.wait()
        except RuntimeError as error:
            raise self._ranks.explain(error) from error
        return [Said(*row.tolist()) for row in self._all]


class Ranks:
    """All ranks of a process group, as one of them sees them.

    Every rank makes it, in the same order as its other loaders and groups.

    Args:
        group: of the training; None: all ranks.

    Raises:
        OptionError: there is no process group, or this rank is not in it.
    """

    def __init__(self, group: Any) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise OptionError(
                "`uneven` is given, but there is no process group: call "
                "torch.distributed.init_process_group first (torchrun sets what it "
                "needs), or leave `uneven` out."
            )
        members = dist.get_process_group_ranks(group)
        if dist.get_rank() not in members:
            raise OptionError(f"`group` is {group!r}, which this rank is not in.")
        self.group = dist.new_group(
            members, backend="gloo", use_local_synchronization=True
        )
        self.size = len(members)
        self.rank = dist.get_rank(self.group)
        store = dist.distributed_c10d._get_default_store()
        self._store: Any = dist.PrefixStore(  # type: ignore[attr-defined]
            f"echobuf/{members}/{next(_made)}", store
        )
        self._leaving: threading.Thread | None = None
        self._stop = threading.Event()
        beat = threading.Thread(
            target=_beat, args=(self._store, self.rank, self._stop),
            name="echobuf-beat", daemon=True,
        )  # fmt: skip
        beat.start()
        weakref.finalize(self, self._stop.set)

    def say(self, said: Said) -> Round:
        """Begins a round; every rank must."""
        return Round(self, said)

    def settle(self) -> None:
        """Hears out what was under way when this rank left its last loop."""
        while self._leaving is not None and self._leaving.is_alive():
            self._leaving.join(0.1)
        self._leaving = None

    def check_same(self, arguments: dict[str, Any]) -> None:
        """Raises `OptionError` unless all ranks have the same arguments."""
        everybodys: list[Any] = [None] * self.size
        try:
            dist.all_gather_object(everybodys, arguments, group=self.group)
        except RuntimeError as error:
            raise self.explain(error) from error
        for name in arguments:
            values = [theirs.get(name) for theirs in everybodys]
            if any(value != values[0] for value in values):
                shown = ", ".join(f"rank {r}: {v!r}" for r, v in enumerate(values))
                raise OptionError(
                    f"`{name}` differs between ranks ({shown}); make the loader with "
                    "the same arguments on all of them."
                )

    def sign(self, state: dict[str, Any], offsets: list[int]) -> dict[str, Any]:
        """A state of this rank that says how far each rank was."""
        own = [*offsets]
        own[self.rank] = state["fresh_offset"]
        return signed(state, self.rank, own)

    def failure(self, said: list[Said], mine: str | None) -> UpstreamError:
        """The error for ranks that have failed; all ranks call it.

        Args:
            said: in the last round.
            mine: why this rank has, if it has.
        """
        texts: list[Any] = [None] * self.size
        try:
            dist.all_gather_object(texts, mine, group=self.group)
        except RuntimeError as error:
            return self.explain(error)
        failed = [rank for rank, one in enumerate(said) if one.state == FAILED]
        return UpstreamError(
            "; ".join(f"rank {rank} failed: {texts[rank]}" for rank in failed)
        )

    def leave(self, under_way: Round | None, last: Said, pad: bool) -> None:
        """Says `last` once what is under way has been said; nothing waits for it."""
        self._leaving = threading.Thread(
            target=_leave, args=(self, under_way, last, pad),
            name="echobuf-leave", daemon=True,
        )  # fmt: skip
        self._leaving.start()

    def explain(self, error: RuntimeError) -> UpstreamError:
        """The error for a collective that broke off: who is no longer there."""
        silent = set(range(self.size)) - {self.rank}
        begun = time.monotonic()
        try:
            before = self._beats()
            while silent and time.monotonic() < begun + _SILENT_S:
                time.sleep(_BEAT_S / 2)
                now = self._beats()
                silent -= {rank for rank in silent if now[rank] != before[rank]}
        except RuntimeError:  # the store is rank 0's, which may be gone by now, too
            if time.monotonic() < begun + 2 * _BEAT_S:
                silent = {0}
        names = ", ".join(str(rank) for rank in sorted(silent)) or "of somebody"
        return UpstreamError(f"rank {names} no longer answers: {error}")

    def _beats(self) -> list[int]:
        return [self._store.add(f"beat/{rank}", 0) for rank in range(self.size)]


def agreement(said: list[Said], pad: bool) -> tuple[int, bool]:
    """How many batches all ranks may hand out, and whether they are the last.

    Args:
        said: by each rank.
        pad: those that have ended go on with batches that they have served.
    """
    if pad:
        going = [one.count for one in said if one.state == ON]
        return (min(going), False) if going else (max(o.count for o in said), True)
    count = min(one.count for one in said)
    return count, any(one.state == ENDED and one.count == count for one in said)


def _leave(ranks: Ranks, under_way: Round | None, last: Said, pad: bool) -> None:
    try:
        if under_way is not None:
            said = under_way.wait()
            states = [one.state for one in said]
            if FAILED in states:
                ranks.failure(said, None)
            if FAILED in states or LEFT in states or agreement(said, pad)[1]:
                return
        ranks.say(last).wait()
    except (UpstreamError, RuntimeError):
        return  # whoever is still there finds out by itself


def _beat(store: Any, rank: int, stop: threading.Event) -> None:
    """Shows that this rank is alive, until it is not."""
    try:
        while not stop.wait(_BEAT_S):
            store.add(f"beat/{rank}", 1)
    except RuntimeError:
        return  # the store is gone: whoever asks sees that
