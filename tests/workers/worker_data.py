"""Datasets that worker processes read, and helpers for loaders with workers.

In a module of their own: worker processes import it.
"""

import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import echobuf

KEPT: list[Any] = []  # until the interpreter goes
WORDS = 1000  # of an example: not one store
KWARGS: dict[str, Any] = {"batch_size": 4, "window": 16, "factor": 2, "seed": 5}


class Numbers:
    """A dataset whose example i repeats i."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        number = range(self.n)[index]
        return {"id": np.int64(number), "x": np.full(WORDS, number, np.int32)}


class Sleepy(Numbers):
    """A dataset whose examples take some seconds each."""

    def __init__(self, n: int, seconds: float) -> None:
        super().__init__(n)
        self.seconds = seconds

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds)
        return super().__getitem__(index)


class Uneven(Numbers):
    """A dataset that says which process made an example, each in another time."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.001 * (7 * index % 11))
        return {"id": np.int64(index), "process": np.int64(os.getpid())}


class Troubled(Numbers):
    """A dataset that misbehaves at example `at` while a file `flag` exists."""

    def __init__(self, n: int, trouble: Any, at: int, flag: Path | None = None) -> None:
        super().__init__(n)
        self.trouble = trouble
        self.at = at
        self.flag = flag

    def __getitem__(self, index: int) -> Any:
        is_due = self.flag is None or self.flag.exists()
        if index == self.at and is_due and is_worker():
            return self.trouble()
        return super().__getitem__(index)


class Pair(NamedTuple):
    """An example that is no dict."""

    x: Any
    y: Any


class Tensors:
    """Examples of torch's tensors, of a type that NumPy lacks, too."""

    def __init__(self) -> None:
        import torch

        self.x = torch.arange(120, dtype=torch.bfloat16).reshape(40, 3)

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Pair:
        return Pair(self.x[index], index)


class Foreign(Numbers):
    """Examples in the byte order of another machine."""

    def __getitem__(self, index: int) -> Any:
        example = super().__getitem__(index)
        return {**example, "x": example["x"].astype(">i4")}


class Random(Numbers):
    """A dataset whose examples hold a worker's random numbers."""

    def __getitem__(self, index: int) -> Any:
        drawn = np.array([random.random(), np.random.rand()])
        return {"id": np.int64(index), "x": drawn}


class Noted(Numbers):
    """A dataset that notes in `folder` the processes that have made examples.

    Examples 1 and 2 wait for each other: each is made by a worker of its own.
    """

    def __init__(self, n: int, folder: Path) -> None:
        super().__init__(n)
        self.folder = folder
        self.lock = multiprocessing.get_context("spawn").Lock()

    def __getitem__(self, index: int) -> Any:
        with self.lock:
            (self.folder / str(index)).write_text(str(os.getpid()))
        if index in (1, 2):
            end = time.monotonic() + 60
            while not (self.folder / str(3 - index)).exists():
                assert time.monotonic() < end
                time.sleep(0.001)
        return super().__getitem__(index)


class Listed(Numbers):
    """A dataset that appends the requested indices to a file."""

    def __init__(self, n: int, file: Path) -> None:
        super().__init__(n)
        self.file = file

    def __getitem__(self, index: int) -> Any:
        with self.file.open("a") as file:
            file.write(f"{index}\n")
        return super().__getitem__(index)


class UnlikelyError(Exception):
    """A dataset that can be pickled, but not unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def is_worker() -> bool:
    return multiprocessing.current_process().name.startswith("echobuf-worker")


def raise_value() -> Any:
    raise ValueError("no such example")


def raise_unlikely() -> Any:
    raise UnlikelyError(1, 2)


def misshape() -> Any:
    return {"id": np.int64(0), "x": np.zeros(3, np.int32)}


def leave() -> Any:
    os._exit(3)


def crash() -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(says: Path | None = None) -> Any:
    if says is not None:
        says.touch()
    threading.Event().wait()


def hang_until_told(says: Path) -> Any:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(5))
    hang(says)


def hang_for_good(says: Path) -> Any:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang(says)


def leave_at_once(number: int) -> None:
    os._exit(4)


def refuse(number: int) -> None:
    raise LookupError(f"worker {number} has nothing to read")


# ---- on the trainer's side


multiprocessing.set_forkserver_preload(["echobuf.workers.main"])


def load(dataset: Any, workers: int, **kwargs: Any) -> echobuf.EchoLoader:
    """Return a loader whose workers are forked, which takes a tenth of the time.

    Those of most other folders are spawned, as they are unless a user says otherwise.
    """
    usual = {**KWARGS, "multiprocessing_context": "forkserver"}
    return echobuf.EchoLoader(dataset, num_workers=workers, **{**usual, **kwargs})


def load_spawned(dataset: Any, workers: int, **kwargs: Any) -> echobuf.EchoLoader:
    return load(dataset, workers, multiprocessing_context="spawn", **kwargs)


def ids(batches: Any) -> list[list[int]]:
    """Return the ids of each batch; no record may be torn."""
    served = []
    for batch in batches:
        assert (batch["x"] == batch["id"][:, None]).all()
        served.append(batch["id"].tolist())
    return served


def workers_alive() -> list[Any]:
    return [
        process
        for process in multiprocessing.active_children()
        if process.name.startswith("echobuf-worker")
    ]


class Once:
    """Trouble that removes its flag first."""

    def __init__(self, flag: Path, trouble: Any) -> None:
        self.flag = flag
        self.trouble = trouble

    def __call__(self) -> Any:
        self.flag.unlink()
        return self.trouble()


class UntilThere:
    """Trouble that waits until a file exists."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self) -> Any:
        while not self.path.exists():
            time.sleep(0.01)
        return Numbers(1000)[12]


class Epochs(Numbers):
    """A dataset whose examples say the epoch that it was told, and how often."""

    epoch = -1
    calls = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.calls += 1

    def __getitem__(self, index: int) -> Any:
        return {"id": np.int64(index), "epoch": np.int64(self.epoch)}


class Opened(Numbers):
    """A dataset that opens its file with its first example, as docs/workers.md says."""

    file: Any = None

    def __init__(self, n: int, path: Path, parent: int) -> None:
        super().__init__(n)
        self.path = path
        self.parent = parent

    def __getitem__(self, index: int) -> Any:
        assert os.getpid() != self.parent, "it is read where it was made"
        if self.file is None:
            self.file = self.path.open("rb")
        self.file.seek(index)
        return super().__getitem__(self.file.read(1)[0])


class Lengths(Opened):
    """The same, whose examples differ in length."""

    def __getitem__(self, index: int) -> Any:
        item = super().__getitem__(index)
        return {"id": item["id"], "x": item["x"][: index % 5]}
