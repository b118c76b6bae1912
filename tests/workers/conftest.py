"""No test leaves processes, descriptors or shared memory behind."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from helpers import until
from leaked_threads import no_feeder
from worker_data import workers_alive


def _open_memory() -> int:
    """Return the number of unnamed memory files and pidfds that are open."""
    links = []
    for each in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{each}"))
        except OSError:  # the one that lists
            continue
    return sum("memfd:echobuf" in link or "[pidfd]" in link for link in links)


def _have_workers_gone() -> bool:
    gc.collect()  # each time: a thread may only just have let go of them
    return not workers_alive()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    shared = set(os.listdir("/dev/shm"))
    before = _open_memory()
    yield
    until(_have_workers_gone)
    no_feeder()
    gc.collect()
    assert _open_memory() <= before  # caches of other tests may go meanwhile
    left = {each for each in set(os.listdir("/dev/shm")) - shared if "echobuf" in each}
    assert not left
