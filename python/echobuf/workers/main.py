"""The program of a worker process."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from types import ModuleType
from typing import Any

import numpy as np

from echobuf import _core, capacity
from echobuf._engine import ragged
from echobuf._engine.arrays import prepare_put
from echobuf._engine.carry import Carrier
from echobuf._engine.ragged_forms import as_arrays
from echobuf.errors import CapacityError, ItemError, SpecError
from echobuf.spec import make_spec
from echobuf.workers.messages import (
    FAILED,
    GO_ON,
    ITEM,
    READY,
    ReceivedPayload,
    RecordConfig,
    WorkerConfig,
    pack_error,
)
from echobuf.workers.object_log import LogWriter, ObjectLog, pack_first, pack_objects

_SLICE_S = 1.0
_ORPHANED = 1  # exit code of a worker whose trainer has gone


def run_worker(
    payload: ReceivedPayload, pipe: Connection, trainer: Any, *shared: Any
) -> None:
    """Make examples until the pool is closed, or the trainer has gone.

    Args:
        payload: the `WorkerConfig`.
        pipe: to the trainer.
        trainer: a pidfd of it, to be detached; None where the system has none.
        shared: descriptors, to be detached: of the control block, of the ring's
            slots, and of what examples carry, if they do; they come later to a worker
            that makes the first example.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer handles it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    memory = [each.detach() for each in shared]
    watched = [pipe.fileno()] if memory else []
    watched += [] if trainer is None else [trainer.detach()]
    if watched:
        _core.exit_when_readable(watched, _ORPHANED)
    try:
        config: WorkerConfig = payload.open()
        when_imported("torch", _set_threads)
        writer = None
        if config.record is not None:
            writer = _ExampleWriter(config, config.record, *memory)
        seed = seed_all(config.seed, config.number, config.start)
        set_worker_info(config, seed)
        if config.init is not None:
            config.init(config.number)
        pipe.send((READY, None, None))
        if writer is None:
            record, memory = make_first(config.dataset, pipe)
            _core.exit_when_readable([pipe.fileno()], _ORPHANED)
            writer = _ExampleWriter(config, record, *memory)
            # As in a worker that has not made it.
            seed_all(config.seed, config.number, config.start)
    except BaseException as error:
        packed = pack_error(error)
        with contextlib.suppress(ConnectionError):  # the loader was dropped
            pipe.send((FAILED, None, packed))
        return
    worker = writer.worker
    while True:
        code, index = worker.take(_SLICE_S)
        if code == _core.TIMEOUT:
            continue
        if code != 0:
            return
        try:
            writer.make(index)
        except BaseException as error:
            pipe.send((FAILED, worker.item(), pack_error(error)))
            # An item marked as done before it is revoked would be served.
            while (code := worker.wait_revoked(_SLICE_S)) == _core.TIMEOUT:
                pass
            if code != 0:
                return
        worker.done()


def make_first(dataset: Any, pipe: Connection) -> tuple[RecordConfig, list[int]]:
    """Make the first examples; return the records to write, and their memory."""
    while True:
        what, asked = pipe.recv()
        if what == GO_ON:
            record: RecordConfig = pickle.loads(asked)
            count = 3 if record.carries else 2
            return record, [recv_handle(pipe) for _ in range(count)]
        try:
            answer = ITEM, asked, pack_first(dataset[asked], asked)
        except BaseException as error:
            pipe.send((FAILED, asked, pack_error(error)))
        else:
            pipe.send(answer)


def _set_threads(torch: ModuleType) -> None:
    torch.set_num_threads(1)  # as in a DataLoader


class _ExampleWriter:
    """A reader of examples, as the trainer has one, that writes them into slots."""

    def __init__(
        self,
        config: WorkerConfig,
        record: RecordConfig,
        control_block: int,
        slots: int,
        log: int | None = None,
    ) -> None:
        self._dataset = config.dataset
        example = record.example
        self._carried: _CarriedWriter | None = None
        if log is not None:
            config.adapter.learn(example)
            self._carried = _CarriedWriter(record, log, config.start)
            example = self._carried.carrier.strip(example)
        spec = make_spec(as_arrays(config.adapter.read_first(example)))
        self._spec = replace(spec, fields=record.fields)
        self._read = config.adapter.decoder()
        self._ragged = record.ragged
        self._epoch = config.epoch
        self._told = -1  # the epoch that the dataset is in
        try:
            self.worker = self._make_worker(config, record, control_block, slots)
        finally:
            os.close(control_block)
            os.close(slots)

    def _make_worker(
        self,
        config: WorkerConfig,
        record: RecordConfig,
        control_block: int,
        memory: int,
    ) -> _core.Worker:
        own: dict[str, Any] = {
            "control_block": control_block,
            "memory": memory,
            "workers": config.count,
            "number": config.number,
            "leaves": [(field.dtype, field.shape) for field in self._spec.fields],
        }
        if record.ragged is None:
            return _core.Worker(**own, capacity=record.capacity)
        options = record.ragged.options
        return _core.Worker(
            **own,
            sizes=record.ragged.sizes,
            max_lengths=capacity.max_lengths(self._spec, options),
            row_length=options.row_length,
            cut=options.cuts,
        )

    def make(self, index: int) -> None:
        if self._epoch is not None and self._epoch.get() != self._told:
            self._told = self._epoch.get()
            self._dataset.set_epoch(self._told)
        item = self._dataset[index]
        objects: list[Any] = []
        try:
            if self._carried is not None:
                item, objects = self._carried.carrier.split(item)
            leaves = self._spec.flatten(self._read(item), "example")
            if self.worker.write(leaves) is not None:
                ready = prepare_put(leaves, self._spec, stacked=False)
                self._check_sizes(ready)
                if self.worker.write(list(ready)) is not None:
                    raise SpecError("an array was changed by another thread.")
        except SpecError as error:
            raise ItemError(
                f"example {index} of upstream does not fit the first one: {error}"
            ) from error.__cause__
        except CapacityError as error:
            raise CapacityError(
                f"example {index} of upstream is too large: {error}"
            ) from error.__cause__
        if self._carried is not None:  # first: draws find it once the item is done
            self._carried.write(self.worker.item(), objects, index)

    def _check_sizes(self, arrays: list[Any]) -> None:
        """Raise for an example larger than a segment's share, or than a row."""
        if self._ragged is not None:
            ragged.check_sizes(
                arrays,
                self._spec,
                self._ragged.options,
                stacked=False,
                share=self._ragged.share,
            )


class _CarriedWriter:
    """Writes the leaves of examples that are no arrays."""

    def __init__(self, record: RecordConfig, log: int, start: int) -> None:
        is_ragged = record.ragged is not None
        self.carrier = Carrier(record.example, batched=False, ragged=is_ragged)
        self._receiver = record.receiver
        self._log = ObjectLog(log)
        self._writer: LogWriter = self._log.writer(start)

    def write(self, item: int, objects: list[Any], index: int) -> None:
        row = pack_objects(objects, self.carrier.paths, index, self._receiver)
        self._writer.write(self._log.shift + item, row, index)


def seed_all(seed: int, number: int, start: int) -> int:
    """Seed `random`, NumPy's and torch's, as a DataLoader does.

    torch is seeded when it is imported: otherwise all workers would draw the same
    numbers.

    Args:
        seed: of the loader.
        number: of the worker.
        start: number of processes started before, so that one that replaces a dead
            worker does not repeat its numbers.

    Returns:
        The seed of torch.
    """
    words = np.random.SeedSequence([seed, number, start]).generate_state(8)
    random.seed(words[:4].tobytes())
    np.random.seed(words[4:6])
    of_torch = int(words[6:].view(np.uint64)[0] >> 1)

    def seed_torch(torch: ModuleType) -> None:
        torch.manual_seed(of_torch)

    when_imported("torch", seed_torch)
    return of_torch


def set_worker_info(config: WorkerConfig, seed: int) -> None:
    """Make `torch.utils.data.get_worker_info` work here as in a DataLoader's worker.

    A `worker_init_fn` written for a DataLoader gets the worker's copy of the dataset
    from it. A dataset may import torch with its first example: the info is set then.
    """

    def set_info(worker: Any) -> None:
        with contextlib.suppress(AttributeError, TypeError):  # another version of torch
            worker._worker_info = worker.WorkerInfo(
                id=config.number,
                num_workers=config.count,
                seed=seed,
                dataset=config.dataset,
            )

    when_imported("torch.utils.data._utils.worker", set_info)


Action = Callable[[ModuleType], None]


def when_imported(name: str, action: Action) -> None:
    """Call `action` with a module: now if it is imported, else after its import.

    An action that raises makes the import fail, and runs again with the next one.
    """
    if name in sys.modules:
        action(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, action))


class _Finder(MetaPathFinder):
    def __init__(self, name: str, action: Action) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        behind = sys.meta_path.index(self) + 1
        for finder in sys.meta_path[behind:]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def run(self, module: ModuleType) -> None:
        self._action(module)
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _Loader(Loader):
    """A loader that runs a finder's action after the real loader, once."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # for code that only looks at a spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._finder.run(module)
