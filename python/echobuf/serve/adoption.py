"""The memory of a name's last server, which a job that is still attached shares."""

from __future__ import annotations

import os
import threading

from echobuf.errors import CapacityError
from echobuf.resources import Signal
from echobuf.serve.protocol import Message, close_files


class Adoption:
    """Takes the memory of the last server from the first job that reconnects.

    Args:
        session: of the last server; None if there was none whose jobs may come.

    Attributes:
        adopted: the first message of that job, and descriptors of the memory; None
            before one has come.
    """

    def __init__(self, session: str | None) -> None:
        self._session = session
        self.adopted: tuple[Message, list[int]] | None = None
        self._has_adopted = Signal()
        self._lock = threading.Lock()
        self._is_open = True

    def offer(self, message: Message, files: list[int]) -> None:
        """Take the memory that a job shares, on its thread, unless it is too late."""
        with self._lock:
            if not self._is_open or self.adopted is not None or len(files) != 2:
                return
            if message["session"] != self._session:  # of a server before the last
                return
            if not isinstance(message["spec"], str):
                raise TypeError("no spec")
            own: list[int] = []
            try:
                for file in files:
                    own.append(os.dup(file))
            except OSError:
                close_files(own)
                raise CapacityError("no file descriptor is left") from None
            self.adopted = message, own
            self._has_adopted.set()

    def wait(self, timeout: float) -> bool:
        """Wait for a job's memory; return whether it has come."""
        return self._has_adopted.wait(timeout)

    def stop(self) -> None:
        """Take nothing from now on."""
        with self._lock:
            self._is_open = False

    def close(self) -> None:
        """Take nothing from now on, and close the descriptors of what was taken."""
        self.stop()
        for file in self.adopted[1] if self.adopted is not None else ():
            os.close(file)
