"""Lines about waits that last, for the tests of every kind of wait."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

import echobuf
from helpers import WAIT_S

AFTER_S = 0.05


class Lines(logging.Handler):
    """A handler that keeps lines, and lets threads wait for them."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._more = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        assert record.levelno == logging.WARNING
        with self._more:
            self.texts.append(record.getMessage())
            self._more.notify_all()

    def wait(self, count: int = 1) -> None:
        """Wait until so many lines have been written."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.texts) >= count, WAIT_S)


@contextlib.contextmanager
def progress_lines() -> Iterator[Lines]:
    """Report waits of 50 ms and longer; yield what keeps the lines."""
    handler = Lines()
    logger = logging.getLogger("echobuf")
    logger.addHandler(handler)
    echobuf.set_progress(AFTER_S)
    try:
        yield handler
    finally:
        echobuf.set_progress()
        logger.removeHandler(handler)
