"""The thread that tells worker processes which examples an epoch has."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from echobuf import _core
from echobuf._engine.engine import Engine
from echobuf.loader.feeder import Feeder
from echobuf.workers.watch import Watch

_CHUNK = 64  # indices that are taken from the sampler at a time
_CHUNK_S = 0.005  # unless it is slow


class WorkerFeeder(Feeder):
    """Feeds one epoch through workers; else as `Feeder`.

    Args:
        core: takes the indices.
        watch: knows the workers.
        engine: open, for this epoch.
        indices: what is left of the sampler.
        first: its first index, taken already.
        skipped: examples at the start that a resumed buffer does not need.
    """

    def __init__(
        self,
        core: _core.Crew,
        watch: Watch,
        engine: Engine,
        indices: Iterator[int],
        first: int,
        *,
        skipped: int,
    ) -> None:
        self._core = core
        self._watch = watch
        super().__init__(
            engine,
            indices,
            first,
            batched=False,
            read=_as_it_is,
            skipped=skipped,
            snapshots=None,
            term=watch.begin(),
        )

    def stop(self) -> None:
        """Tells the thread to end, and does not wait for it."""
        # In this order: the thread takes back what was given once it is stopped, and
        # what is taken back is called done unwritten.
        if not self._ended:
            self._watch.abandon(self._term)
        self._stopped.set()

    def _run(self, items: Iterator[Any], item: Any) -> None:
        _core.this_thread_runs_upstream()
        is_all = False
        try:
            is_all = self._give(itertools.chain([item], items))
        except BaseException as error:
            del items, item
            self._watch.fail(error)
        # Upstream has ended once its last example is there.
        if self._watch.settle(self._term, self._stopped) and is_all:
            self._sink.close()
        self._ended = True

    def _give(self, indices: Iterator[int]) -> bool:
        """Whether all were given."""
        indices = itertools.islice(indices, self._skipped, None)
        while not self._stopped.is_set():
            chunk = _take(indices)
            if not chunk.size:
                return True
            code, _ = self._core.give(self._term, chunk, 0)
            if code != 0:
                break  # the term has ended
        return False


def _take(indices: Iterator[int]) -> npt.NDArray[np.int64]:
    chunk: list[int] = []
    end = time.monotonic() + _CHUNK_S
    for index in indices:
        chunk.append(index)
        if len(chunk) == _CHUNK or time.monotonic() > end:
            break
    return np.array(chunk, np.int64)


def _as_it_is(item: Any) -> Any:
    return item
