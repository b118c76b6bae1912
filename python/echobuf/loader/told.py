"""Telling upstream which epoch it is, as trainers tell a DataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from echobuf.loader.order import Order, Sampled
from echobuf.loader.source import as_data_loader


class Told:
    """What in `upstream` has `set_epoch`, and the epoch it was last told."""

    def __init__(self, upstream: Any) -> None:
        self._upstream = upstream
        self._number: int | None = None
        self._noted: dict[int, Any] = {}  # epochs when upstream was begun, by id

    def note_beginning(self) -> None:
        """Note which epoch each is in, now that upstream is begun.

        A trainer that finds a sampler on the loader tells it before the loader.
        """
        self._noted = {
            id(each): getattr(each, "epoch", self._number)
            for each in _takers(self._upstream)
        }

    def tell(self, number: int) -> bool:
        """Calls `set_epoch`; False if nothing there was in another epoch."""
        changed = False
        for each in _takers(self._upstream):
            now = getattr(each, "epoch", self._number)
            changed |= now != number or self._noted.get(id(each), now) != number
            each.set_epoch(number)
        self._number = number
        return changed

    def tell_next(self, number: int) -> None:
        """The same, unless nobody has set an epoch here: then others see to it."""
        if self._number is not None:
            self.tell(number)


def _takers(upstream: Any) -> Iterator[Any]:
    """Upstream itself, else the samplers and the dataset that it is made of."""
    if _takes(upstream):
        yield upstream
        return
    seen: list[Any] = []
    for each in _parts(upstream):
        if _takes(each) and not any(each is other for other in seen):
            seen.append(each)
            yield each


def _parts(upstream: Any) -> tuple[Any, ...]:
    if isinstance(upstream, Sampled):
        upstream = upstream.order
    if isinstance(upstream, Order):
        return upstream.sampler, upstream.dataset
    loader = as_data_loader(upstream)
    if loader is None:
        return ()
    batch_sampler = loader.batch_sampler
    inner = getattr(batch_sampler, "sampler", None)
    return loader.sampler, batch_sampler, inner, loader.dataset


def _takes(each: Any) -> bool:
    return callable(getattr(each, "set_epoch", None))
