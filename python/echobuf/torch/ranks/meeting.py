"""Where the ranks of a loader talk to each other."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from echobuf.errors import UpstreamError
from echobuf.torch.ranks.board import Board, StoreGoneError
from echobuf.torch.ranks.roll import Roll

T = TypeVar("T")

_LOOK_S = 0.5  # between looks at who is there
_LONG_S = 60.0  # after which it is said whom this rank waits for
_PAUSE_S, _LONGEST_PAUSE_S = 2e-5, 1e-3
_PAUSE_PER_RANK_S = 2e-5  # so that many ranks that wait leave the store free


class Meeting:
    """What the ranks of one loader keep for each other, as one of them sees it.

    Args:
        store: that all of them share, for this loader alone.
        roll: of the ranks.
        number: of the loader, among those of these ranks.
        timeout: seconds after which a rank that lives and does not come is given up.

    Attributes:
        members: the numbers of the ranks in the whole job.
        rank: which of them this is.
        size: how many they are.
        store: as given.
    """

    def __init__(self, store: Any, roll: Roll, number: int, timeout: float) -> None:
        self.members = roll.members
        self.rank = roll.rank
        self.size = len(roll.members)
        self.store = store
        self._board = Board(store)
        self._roll = roll
        self._number = number
        self._timeout = timeout

    def set(self, values: Mapping[str, Any]) -> None:
        """Keeps values that JSON can hold, under `key/rank` by custom."""
        self._ask(self._board.set, values)

    def get(self, key: str) -> Any:
        """What was set; None if nothing was."""
        return self._ask(self._board.get, key)

    def get_all(self, prefix: str, without: Collection[int] = ()) -> list[Any] | None:
        """What each rank has set under `prefix/rank`; None unless all have.

        Args:
            prefix: of the keys.
            without: ranks that are left out.
        """
        return self._ask(self._board.get_all, self._keys(prefix, without))

    def read_all(self, prefix: str) -> list[Any]:
        """The same, where all have."""
        return self._ask(self._board.read, self._keys(prefix))

    def delete(self, key: str) -> None:
        """Forgets what is no longer needed."""
        self._ask(self._board.delete, key)

    def _keys(self, prefix: str, without: Collection[int] = ()) -> list[str]:
        return [f"{prefix}/{rank}" for rank in range(self.size) if rank not in without]

    def _ask(self, call: Callable[..., T], argument: Any) -> T:
        try:
            return call(argument)
        except StoreGoneError as error:
            raise self._roll.explain(error) from error

    # ---- waiting

    def wait_for(
        self,
        look: Callable[[], T | None],
        missing: Callable[[], str],
        check: Callable[[], None] | None = None,
    ) -> T:
        """What `look` gives, once it is not None. Ctrl-C gets through.

        Args:
            look: asked again and again.
            missing: what is waited for, in words.
            check: raises `UpstreamError` where there is no use in waiting on; None:
                where a rank is gone.

        Raises:
            UpstreamError: a rank is gone, or the time that collectives have has passed.
        """
        begun = time.monotonic()
        next_look, next_word = begun + _LOOK_S, begun + _LONG_S
        pause, longest = _PAUSE_S, max(_LONGEST_PAUSE_S, _PAUSE_PER_RANK_S * self.size)
        while (answer := look()) is None:
            time.sleep(pause)
            pause = min(2 * pause, longest)
            now = time.monotonic()
            if now > next_look:
                try:
                    (check or self._roll.check)()
                except UpstreamError:
                    # Who is gone may have said all that is needed before.
                    if (answer := look()) is not None:
                        return answer
                    raise
                next_look = now + _LOOK_S
            if now > next_word:
                warnings.warn(
                    f"has waited {_LONG_S:.0f} s for {self._whom(missing)}",
                    stacklevel=2,
                )
                next_word = math.inf
            if now - begun > self._timeout:
                waited = timedelta(seconds=self._timeout)
                raise UpstreamError(f"waited {waited} for {self._whom(missing)}")
        return answer

    def all_have_come(self) -> None:
        """Called when that is so."""
        self._roll.meet()

    def gone(self) -> frozenset[int]:
        """The ranks that are gone."""
        return frozenset(self._roll.gone())

    def check_alive(self) -> None:
        """Raises `UpstreamError` that names the ranks that are gone, if any are."""
        self._roll.check()

    def _whom(self, missing: Callable[[], str]) -> str:
        return (
            f"{missing()} (with its loader number {self._number} of these ranks: all "
            "make and use their loaders in the same order)."
        )

    def missing(self, prefix: str) -> str:
        """The ranks that have set nothing under `prefix/rank`, in words."""
        ranks = [
            str(member)
            for rank, member in enumerate(self.members)
            if self.get(f"{prefix}/{rank}") is None
        ]
        return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(ranks)
