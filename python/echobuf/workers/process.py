"""What runs in a worker process."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from echobuf import _core
from echobuf.arrays import prepare_put
from echobuf.errors import ItemError, SpecError
from echobuf.tree import make_spec
from echobuf.workers.late_import import when_imported
from echobuf.workers.seeds import seed_all
from echobuf.workers.sending import Received
from echobuf.workers.task import FAILED, READY, Task, pack_error
from echobuf.workers.told_torch import tell_torch

_SLICE_S = 1.0
_LEFT_ALONE = 1  # the exit code of a worker whose trainer is gone


def run(parcel: Received, pipe: Connection, *shared: Any) -> None:
    """Makes examples until the trainer says that it is enough, or is gone.

    Args:
        parcel: the `Task`.
        pipe: to the trainer.
        shared: descriptors, to be detached: the memory of the tickets, that of the
            ring, and the trainer's process, where there is such a thing.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer's to handle
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    board, slots, *trainer = (each.detach() for each in shared)
    _core.follow([pipe.fileno(), *trainer], _LEFT_ALONE)
    try:
        task: Task = parcel.open()
        maker = _Maker(task, board, slots)
        seed = seed_all(task.seed, task.number, task.start)
        tell_torch(task, seed)
        if task.init is not None:
            task.init(task.number)
    except BaseException as error:
        pipe.send((FAILED, None, pack_error(error)))
        return
    pipe.send((READY, None, None))
    worker = maker.worker
    while True:
        code, index = worker.take(_SLICE_S)
        if code == _core.TIMEOUT:
            continue
        if code != 0:
            return
        try:
            maker.make(index)
        except BaseException as error:
            pipe.send((FAILED, worker.ticket(), pack_error(error)))
            # Called done before, it would be served.
            while (code := worker.wait_revoked(_SLICE_S)) == _core.TIMEOUT:
                pass
            if code != 0:
                return
        worker.done()


def _set_threads(torch: ModuleType) -> None:
    torch.set_num_threads(1)  # as in a DataLoader


class _Maker:
    """Reads examples as the trainer would, and writes them into their slots."""

    def __init__(self, task: Task, board: int, slots: int) -> None:
        when_imported("torch", _set_threads)
        self._dataset = task.dataset
        spec = make_spec(task.adapter.read_first(task.example))
        self._spec = replace(spec, fields=task.fields)
        self._read = task.adapter.reader()
        leaves = [(field.dtype, field.shape) for field in self._spec.fields]
        try:
            self.worker = _core.Worker(
                board, task.count, task.number, slots, leaves, task.capacity
            )
        finally:
            os.close(board)
            os.close(slots)

    def make(self, index: int) -> None:
        item = self._dataset[index]
        try:
            leaves = self._spec.flatten(self._read(item), "example")
            if self.worker.write(leaves) is not None:
                ready = prepare_put(leaves, self._spec, stacked=False, ragged=False)
                if self.worker.write(list(ready)) is not None:
                    raise SpecError("an array was changed by another thread.")
        except SpecError as error:
            raise ItemError(
                f"example {index} of upstream does not fit the first one: {error}"
            ) from error.__cause__
