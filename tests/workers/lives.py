"""Programs that end in one way or another while workers run; see test_worker_life.py.

Each prints the process ids of its workers first.
"""

import os
import sys
import threading
import time
from typing import Any

import worker_data
from echobuf.loader.loader import internals_of
from worker_data import Numbers, Troubled, load, workers_alive

KEPT: list[Any] = []


def begun(dataset: Any, method: str = "spawn") -> Any:
    """Draw half of an epoch, and print the ids of its workers."""
    loader = load(dataset, 2, multiprocessing_context=method)
    epoch = iter(loader)
    next(epoch)
    print(*[worker.pid for worker in workers_alive()], flush=True)
    return loader, epoch


def exits() -> None:
    """Exit in the middle of an epoch."""
    KEPT.append(begun(Numbers(10**6)))


def exits_while_one_hangs() -> None:
    """Exit while a worker hangs in an example."""
    KEPT.append(begun(Troubled(10**6, worker_data.hang, 40)))


def exits_while_a_thread_has_their_lock() -> None:
    """Exit while a daemon thread, which Python stops, holds the supervisor's lock."""
    loader, epoch = begun(Numbers(10**6))
    worker_data.KEPT.append((loader, epoch))  # Python drops what other modules hold
    supervisor = internals_of(loader).reader.pool.supervisor

    def hold() -> None:
        while not supervisor.closed:
            time.sleep(0.001)
        with supervisor.lock:
            time.sleep(600)

    threading.Thread(target=hold, daemon=True).start()


def raises() -> None:
    """Raise in the training loop."""
    loader, epoch = begun(Numbers(10**6))
    del loader
    for _ in epoch:
        sys.exit(7)


def waits(method: str) -> None:
    """Wait to be killed."""
    KEPT.append(begun(Troubled(10**6, worker_data.hang, 40), method))
    time.sleep(600)


def unraisable_but_of_tracker(
    unraisable: Any, report: Any = sys.unraisablehook
) -> None:
    """Report an exception of `__del__`, unless the resource tracker raised it.

    In a forked child of CPython 3.12 and 3.13 it waits for a process of the parent.
    """
    if "ResourceTracker" not in repr(unraisable.object):
        report(unraisable)


def forks() -> None:
    """Fork a child that exits, which must not disturb the parent's workers."""
    loader, epoch = begun(Numbers(200))
    before = [worker.pid for worker in workers_alive()]
    if (child := os.fork()) == 0:
        sys.unraisablehook = unraisable_but_of_tracker
        del loader, epoch
        os._exit(0) if len(sys.argv) > 2 else sys.exit(0)
    os.waitpid(child, 0)
    left = 1 + sum(1 for _ in epoch)
    assert left == len(loader)
    assert [worker.pid for worker in workers_alive()] == before


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
