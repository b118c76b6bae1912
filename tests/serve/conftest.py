"""Each test has its own folder of servers, and leaves nothing behind."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator

import pytest

from leaked_threads import no_feeder


def _open_memory() -> int:
    """Return the number of unnamed memory files that this process has open."""
    links = []
    for each in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{each}"))
        except OSError:  # the one that lists
            continue
    return sum("memfd:echobuf" in link for link in links)


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch) -> Iterator[None]:
    shared = set(os.listdir("/dev/shm"))
    before = _open_memory()
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield
    gc.collect()
    no_feeder()
    gc.collect()
    assert _open_memory() == before
    assert not {each for each in os.listdir("/dev/shm") if "echobuf" in each} - shared
