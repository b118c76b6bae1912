"""No thread of a loader outlives its test: a plugin, see conftest.py.

A module says `pytest.mark.usefixtures("no_leaked_threads")`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Collection, Iterator

import pytest

from helpers import WAIT_S


def no_feeder(but: Collection[threading.Thread] = ()) -> None:
    """Waits until no thread is left, other than those named."""
    threads = [
        thread
        for thread in threading.enumerate()
        if "echobuf" in thread.name and thread not in but
    ]
    if threads:
        gc.collect()  # loaders in cycles
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()


@pytest.fixture
def no_leaked_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before, failed = threading.enumerate(), request.session.testsfailed
    yield
    if request.session.testsfailed == failed:  # a failed test keeps its own
        no_feeder(before)
