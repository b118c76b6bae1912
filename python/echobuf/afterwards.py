"""What is done with whole batches once they are drawn: the functions of `Lambda`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echobuf.transforms.after import After

Draw = Callable[[], "list[Any] | int"]


class _Batch:
    """A batch whose functions have been called up to a point."""

    def __init__(self, leaves: list[Any]) -> None:
        self._at: tuple[int, list[Any]] = 0, leaves

    def finish(self, work: list[tuple[int, After]]) -> list[Any]:
        """Its leaves once all functions have had them, each once."""
        for number, function in work[self._at[0] :]:
            done, leaves = self._at
            leaves = [*leaves]
            leaves[number] = function.apply(leaves[number])
            self._at = done + 1, leaves  # both at once: whoever interrupts
        return self._at[1]


class Afterwards:
    """Finishes batches; keeps those whose functions raised for the next call.

    Args:
        after: of each leaf, the functions.
    """

    def __init__(self, after: tuple[tuple[After, ...], ...]) -> None:
        self._work = [
            (i, one) for i, functions in enumerate(after) for one in functions
        ]
        self._refused: deque[_Batch] = deque()

    def next(self, draw: Draw) -> list[Any] | int:
        """The leaves of the next batch, or the code that `draw` ends with.

        Raises:
            SpecError: a function raised, or returned something else than it said.
        """
        try:
            batch = self._refused.popleft()
        except IndexError:
            drawn = draw()
            if not isinstance(drawn, list):
                return drawn
            batch = _Batch(drawn)
        try:
            return batch.finish(self._work)
        except BaseException:
            self._refused.appendleft(batch)
            raise

    def waits(self) -> bool:
        """Whether a batch that was drawn has not been handed out."""
        return bool(self._refused)

    def forget(self) -> None:
        """An epoch begins."""
        self._refused.clear()
