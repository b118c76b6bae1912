"""A feeder of a server, whose jobs read what examples carry from a log."""

from __future__ import annotations

from typing import Any

from echobuf._engine.carry import Carrier, is_split
from echobuf.loader.feeder import ItemFeeder
from echobuf.loader.items import length_of
from echobuf.loader.readers import Published
from echobuf.workers.object_log import JOB, pack_objects


class PublishingFeeder(ItemFeeder):
    """A feeder that writes what examples carry into a log before it puts them.

    Args:
        published: where in the log.
        carrier: takes it out of items.
        arguments: as for `ItemFeeder`.
    """

    def __init__(
        self, published: Published, *, carrier: Carrier, **arguments: Any
    ) -> None:
        self._writer = published.log.writer()
        self._first = self._next = published.first
        self._paths = carrier.paths
        self._before: int = arguments["skipped"]
        super().__init__(carrier=carrier, **arguments)

    def most_at_once(self) -> int:
        """Return 0: each item is looked at."""
        return 0

    def _carry(self, objects: list[Any], item: Any) -> None:
        count = length_of(item) if self._stacked else 1
        columns = [
            leaf if self._stacked and is_split(leaf, count) else [leaf] * count
            for leaf in objects
        ]
        for row in zip(*columns, strict=True):
            index = self._before + self._next - self._first
            packed = pack_objects([*row], self._paths, index, JOB)
            self._writer.write(self._next, packed, index)
            self._next += 1
