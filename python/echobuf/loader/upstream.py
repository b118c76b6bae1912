"""Upstream as a loader begins it: once an epoch, on the caller's thread."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from echobuf import hints
from echobuf.errors import UpstreamError
from echobuf.loader.source import begins_anew


@dataclass(frozen=True)
class Start:
    """What came of beginning an epoch of upstream.

    Attributes:
        items: its iterator, past the first item; None if there is nothing to iterate.
        first: the first item.
        error: what it raised, if it did.
    """

    items: Iterator[Any] | None = None
    first: Any = None
    error: Exception | None = None


class Upstream:
    """An iterable, and whether it has another epoch to give."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        self.iterable = iterable
        self._used_up = False
        self._last: weakref.ref[Any] | None = None  # the iterator of the last epoch

    def check_fresh(self) -> None:
        """Raises `UpstreamError` if upstream is known to give no further epoch."""
        if self._used_up:
            raise self._one_shot_error()

    def begin(self) -> Start:
        """Calls `iter(upstream)` and takes the first item.

        Raises:
            UpstreamError: upstream gave the iterator of the last epoch again.
        """
        try:
            items = iter(self.iterable)
            repeated = self._is_repeated(items)
            first = None if repeated else next(items)
        except StopIteration:
            return Start()
        except Exception as error:
            return Start(error=error)
        if repeated:
            raise self._one_shot_error()
        return Start(items, first)

    def _is_repeated(self, items: Iterator[Any]) -> bool:
        """Whether `items` was the last epoch's iterator too. Notes it for the next."""
        last = None if self._last is None else self._last()
        if last is items and not begins_anew(self.iterable):
            return True
        self._used_up = items is self.iterable
        try:
            self._last = weakref.ref(items)
        except TypeError:  # built-in iterators; those of containers are made anew
            self._last = None
        return False

    def _one_shot_error(self) -> UpstreamError:
        return UpstreamError(
            f"`upstream` is a {type(self.iterable).__name__}, which gives one epoch "
            "only and has been used. "
            + (
                hints.to_repeat(self.iterable)
                or "For more epochs pass an object whose `__iter__` begins anew, such "
                "as a list, a DataLoader, or a class with a generator as `__iter__`."
            )
        )
