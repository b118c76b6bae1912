"""Programs that end in one way or another while workers run; see test_worker_life.py.

Each prints the process ids of its workers first.
"""

import os
import sys
import threading
import time
from typing import Any

import worker_data
from worker_data import Numbers, Troubled, load, workers_alive

KEPT: list[Any] = []


def begun(dataset: Any, method: str = "spawn") -> Any:
    """An epoch half-way; the ids of its workers are printed."""
    loader = load(dataset, 2, multiprocessing_context=method)
    epoch = iter(loader)
    next(epoch)
    print(*[worker.pid for worker in workers_alive()], flush=True)
    return loader, epoch


def exits() -> None:
    """The interpreter exits in the middle of an epoch."""
    KEPT.append(begun(Numbers(10**6)))


def exits_while_one_hangs() -> None:
    """And a worker never comes back from an example."""
    KEPT.append(begun(Troubled(10**6, worker_data.hang, 40)))


def exits_while_a_thread_has_their_lock() -> None:
    """Python stops it where it next asks for the GIL, and the lock stays taken."""
    loader, epoch = begun(Numbers(10**6))
    worker_data.KEPT.append((loader, epoch))  # Python drops what other modules hold
    watch = loader._starter._reader.pool.watch

    def hold() -> None:
        while not watch._closed:
            time.sleep(0.001)
        with watch._lock:
            time.sleep(600)

    threading.Thread(target=hold, daemon=True).start()


def raises() -> None:
    """The training loop raises."""
    loader, epoch = begun(Numbers(10**6))
    del loader
    for _ in epoch:
        sys.exit(7)


def waits(method: str) -> None:
    """Is killed."""
    KEPT.append(begun(Troubled(10**6, worker_data.hang, 40), method))
    time.sleep(600)


def forks() -> None:
    """A child of a fork exits; the parent's workers do not hear of it."""
    loader, epoch = begun(Numbers(200))
    before = [worker.pid for worker in workers_alive()]
    if (child := os.fork()) == 0:
        del loader, epoch
        os._exit(0) if len(sys.argv) > 2 else sys.exit(0)
    os.waitpid(child, 0)
    left = 1 + sum(1 for _ in epoch)
    assert left == len(loader)
    assert [worker.pid for worker in workers_alive()] == before


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
