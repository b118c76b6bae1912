"""The thread that tells worker processes which examples an epoch has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf.buffer import EchoBuffer
from echobuf.loader.feeder import Feeder
from echobuf.workers.crew import Crew

_CHUNK = 64  # indices that are taken from the sampler at a time


class WorkerFeeder(Feeder):
    """Feeds one epoch through workers; else as `Feeder`.

    Args:
        crew: the workers.
        buffer: open, for this epoch.
        indices: what is left of the sampler.
        first: its first index, taken already.
        skipped: examples at the start that a resumed buffer does not need.
    """

    def __init__(
        self,
        crew: Crew,
        buffer: EchoBuffer,
        indices: Iterator[int],
        first: int,
        *,
        skipped: int,
    ) -> None:
        self._crew = crew
        self._term = crew.begin()
        super().__init__(
            buffer,
            indices,
            first,
            batched=False,
            read=_as_it_is,
            skipped=skipped,
            snapshots=None,
        )

    def _run(self, items: Iterator[Any], item: Any) -> None:
        try:
            self._give(itertools.chain([item], items))
        except BaseException as error:
            del items, item
            self._crew.fail(error)
        self._crew.settle(self._stopped.is_set)
        self._ended = True

    def _give(self, indices: Iterator[int]) -> None:
        indices = itertools.islice(indices, max(self._skipped, 0), None)
        while not self._stopped.is_set():
            chunk = np.fromiter(itertools.islice(indices, _CHUNK), np.int64)
            if not chunk.size:
                self._buffer.close()
                return
            if not self._crew.give(self._term, chunk):
                return


def _as_it_is(item: Any) -> Any:
    return item
