"""No thread of a loader outlives its test: a plugin, see conftest.py.

A module says `pytest.mark.usefixtures("no_leaked_threads")`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest


def no_feeder() -> None:
    """Waits until no thread is left; not for long, as a failed test keeps its own."""
    threads = [thread for thread in threading.enumerate() if "echobuf" in thread.name]
    if threads:
        gc.collect()  # loaders in cycles
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def no_leaked_threads() -> Iterator[None]:
    yield
    no_feeder()
