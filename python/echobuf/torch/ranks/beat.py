"""A sign of life for ranks on other machines."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from echobuf.limits import enough
from echobuf.threads import Signal

EVERY_S = 2.0
_PATIENCE_S = 3.0


class Beat:
    """Counts up a key of a store until it is dropped, or the interpreter exits.

    Args:
        store: thread-safe.
        key: of this rank.
    """

    def __init__(self, store: Any, key: str) -> None:
        stop = Signal()
        thread = threading.Thread(
            target=_run, args=(store, key, stop), name="echobuf-beat", daemon=True
        )
        with enough("a rank's sign of life", "end others"):
            thread.start()
        # At exit, too: a thread that is inside the store when the interpreter goes
        # away would end the process with an abort.
        self.stop = weakref.finalize(self, _stop, stop, thread)


def _run(store: Any, key: str, stop: Signal) -> None:
    try:
        while True:
            store.add(key, 1)
            if stop.wait(EVERY_S):
                return
    except RuntimeError:  # the store is gone: whoever needs it finds that out
        return


def _stop(stop: Signal, thread: threading.Thread) -> None:
    stop.set()
    if thread is not threading.current_thread():
        thread.join(_PATIENCE_S)
