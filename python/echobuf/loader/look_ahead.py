"""Items that are looked at before they are put: copies, as upstream may change them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf import device_views, hints
from echobuf._engine.termination import upstream_failed
from echobuf.device_arrays import is_on_device
from echobuf.errors import SpecError
from echobuf.spec import as_array
from echobuf.trees import is_none, map_leaves


class LookAhead(Iterator[Any]):
    """Items of upstream, some of which have been taken already.

    Args:
        items: of upstream.
        first: the item before them, taken already.

    Attributes:
        first: the same; a copy once `look` was called, as upstream may have used its
            memory again.
    """

    def __init__(self, items: Iterator[Any], first: Any) -> None:
        self.first = first
        self._items = items
        self._taken: deque[Any] = deque()
        self._error: Exception | None = None
        self._noted: Exception | None = None

    def __next__(self) -> Any:
        if self._taken:
            return self._taken.popleft()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return next(self._items)

    def look(self, most: int) -> Iterator[Any]:
        """Yield copies of the items that come next, up to `most`, and keep them.

        An error of upstream's ends it, and is raised where the item would have been.
        """
        self.first = map_leaves(copy_leaf, self.first, is_none)
        for _ in range(most):
            try:
                item = next(self._items)
            except StopIteration:
                return
            except Exception as error:
                self._error = error
                return
            self._taken.append(map_leaves(copy_leaf, item, is_none))
            yield self._taken[-1]

    def note(self, error: Exception) -> None:
        """Note an error of what was looked at, which is raised again in its place."""
        self._noted = error

    def raise_error(self) -> None:
        """Raise `UpstreamError` if upstream raised while items were looked at."""
        error = self._error or self._noted
        if error is not None:
            raise upstream_failed(error)

    def holds_items(self) -> bool:
        """Return True while upstream is ahead of what was handed out."""
        return bool(self._taken)


def copy_leaf(leaf: Any) -> Any:
    """Return a copy of an array: upstream may use its memory again."""
    if isinstance(leaf, np.ndarray | bytearray):
        return leaf.copy()
    if hints.is_of(leaf, "torch", "Tensor"):
        return leaf.detach().clone()
    if is_on_device(leaf):
        return device_views.copy_of(leaf)
    if isinstance(leaf, memoryview) and leaf.format == "B" and leaf.ndim == 1:
        return memoryview(bytes(leaf))
    try:
        array = as_array(leaf, "example")
    except SpecError:  # which is raised later, with the leaf's name
        return leaf
    never_changes = not array.ndim or hints.is_of(leaf, "jaxlib", "ArrayImpl")
    return leaf if never_changes else array.copy()
