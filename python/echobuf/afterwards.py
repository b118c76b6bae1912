"""What is done with whole batches once they are drawn: the functions of `Lambda`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echobuf.transforms.after import After

Draw = Callable[[], "list[Any] | int"]


class Afterwards:
    """Finishes batches; keeps those whose functions raised for the next call.

    Args:
        after: of each leaf, the functions.
    """

    def __init__(self, after: tuple[tuple[After, ...], ...]) -> None:
        self._after = after
        self._refused: deque[list[Any]] = deque()

    def next(self, draw: Draw) -> list[Any] | int:
        """The leaves of the next batch, or the code that `draw` ends with.

        Raises:
            SpecError: a function raised, or returned something else than it said.
        """
        try:
            leaves = self._refused.popleft()
        except IndexError:
            drawn = draw()
            if not isinstance(drawn, list):
                return drawn
            leaves = drawn
        try:
            return [
                self._finish(leaf, after)
                for leaf, after in zip(leaves, self._after, strict=True)
            ]
        except BaseException:
            self._refused.appendleft(leaves)
            raise

    @staticmethod
    def _finish(leaf: Any, after: tuple[After, ...]) -> Any:
        for one in after:
            leaf = one.apply(leaf)
        return leaf

    def waits(self) -> bool:
        """Whether a batch that was drawn has not been handed out."""
        return bool(self._refused)

    def forget(self) -> None:
        """An epoch begins."""
        self._refused.clear()
