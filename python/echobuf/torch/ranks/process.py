"""Which process a rank is, and whether it still runs."""

from __future__ import annotations

import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_GONE = ("Z", "X", "x")  # states in /proc: a zombie, dead


@dataclass(frozen=True)
class Process:
    """A process, so that others on its machine can tell whether it is gone.

    Attributes:
        machine: the boot of the machine, and the namespace that `pid` counts in.
        pid: the process.
        started: clock ticks after the boot; a later process may get the same `pid`.
    """

    machine: str
    pid: int
    started: str

    @classmethod
    def this(cls) -> Process:
        """The one that calls."""
        pid = os.getpid()
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            namespace = os.readlink("/proc/self/ns/pid")
            return cls(f"{boot} {namespace}", pid, _read_stat(pid)[1])
        except OSError:  # nobody can look it up
            return cls(uuid.uuid4().hex, pid, "")

    def is_gone(self) -> bool:
        """Whether it has ended; only a process of this machine may ask."""
        try:
            state, started = _read_stat(self.pid)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return started != self.started or state in _GONE

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def _read_stat(pid: int) -> tuple[str, str]:
    """Its state, and when it was started."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text.rpartition(")")[2].split()  # the name may hold anything
    return fields[0], fields[19]
