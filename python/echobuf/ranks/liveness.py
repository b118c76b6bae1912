"""Liveness of the ranks, which tell each other of it in a store of JSON values."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist

from echobuf import _core
from echobuf.errors import UpstreamError, message
from echobuf.resources import Signal, enough

_LONGEST_ERROR = 500


class JsonStore(ABC):
    """A store of torch.distributed whose values are encoded as JSON.

    Every method raises `UpstreamError` once the store does not answer.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._is_extended = store.has_extended_api()
        self._failure: str | None = None

    def set(self, values: Mapping[str, Any]) -> None:
        """Store each value under its key."""
        texts = [json.dumps(value) for value in values.values()]
        if len(texts) > 1 and self._is_extended:
            self._call("multi_set", list(values), texts)
            return
        for key, text in zip(values, texts, strict=True):
            self._call("set", key, text)

    def get(self, key: str) -> Any:
        """Return the value of a key; None if it has none."""
        (found,) = self.read_if_set([key]) or [None]
        return found

    def read_if_set(self, keys: Sequence[str]) -> list[Any] | None:
        """Return the values of the keys; None unless each of them has one."""
        return self.read(keys) if self._call("check", list(keys)) else None

    def read(self, keys: Sequence[str]) -> list[Any]:
        """Return the values of keys that are known to have one."""
        if self._is_extended:
            found = self._call("multi_get", list(keys))
        else:
            found = [self._call("get", key) for key in keys]
        return [json.loads(value) for value in found]

    def delete(self, key: str) -> None:
        """Remove a key and its value."""
        self._call("delete_key", key)

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key, initially 0; return the sum."""
        return int(self._call("add", key, amount))

    def _call(self, method: str, *args: Any) -> Any:
        if self._failure is not None:  # torch would print a C++ stack trace each time
            raise self.explain_gone(self._failure)
        try:
            return getattr(self._store, method)(*args)
        except RuntimeError as error:
            self._failure = str(error).partition("\n")[0]
            raise self.explain_gone(self._failure) from error

    @abstractmethod
    def explain_gone(self, failure: str) -> UpstreamError:
        """Return the error for a store that does not answer."""


def format_error(error: BaseException) -> str:
    """Return the text of an error for the other ranks, cut to a bounded length."""
    text = message(error)
    return text if len(text) <= _LONGEST_ERROR else text[:_LONGEST_ERROR] + "..."


def format_per_rank(values: Sequence[tuple[int, Any]]) -> str:
    """Return "rank 0: 1, rank 1: 2" for pairs of a rank and its value."""
    return ", ".join(f"rank {rank}: {value!r}" for rank, value in values)


HEARTBEAT_S = 2.0  # between two heartbeats of a rank
SILENCE_S = 120.0  # without a heartbeat, after which a rank is gone
_JOIN_S = 3.0  # for the heartbeat's thread to end
_PATIENCE_S = 1.0  # for the process that keeps the store to be seen as ended
_ENDED_STATES = ("Z", "X", "x")  # in /proc: a zombie, dead


@dataclass(frozen=True)
class Process:
    """A process that other processes of its machine can look up."""

    machine: str  # the boot of the machine, and the namespace that `pid` counts in
    pid: int  # the process
    started: str  # clock ticks after the boot; a later process may get the same `pid`

    @classmethod
    def current(cls) -> Process:
        """Return the calling process."""
        pid = os.getpid()
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            namespace = os.readlink("/proc/self/ns/pid")
            return cls(f"{boot} {namespace}", pid, _read_stat(pid)[1])
        except OSError:  # without /proc it counts as on another machine
            return cls(uuid.uuid4().hex, pid, "")

    def has_ended(self) -> bool:
        """Return whether the process has ended; call it on the same machine only."""
        try:
            state, started = _read_stat(self.pid)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return started != self.started or state in _ENDED_STATES


def _read_stat(pid: int) -> tuple[str, str]:
    """Return the state of a process and its start time."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text.rpartition(")")[2].split()  # the name may hold anything
    return fields[0], fields[19]


class Heartbeat:
    """A thread that increments a key of a store, for ranks on other machines.

    It ends when the object is dropped, or the interpreter exits.
    """

    def __init__(self, store: Any, key: str) -> None:
        stop = Signal()
        thread = threading.Thread(
            target=_send_heartbeats,
            args=(store, key, stop),
            name="echobuf-beat",
            daemon=True,
        )
        with enough("a rank's heartbeat", "end others"):
            thread.start()
        # At exit, too: a thread that is inside the store when the interpreter goes
        # away would end the process with an abort.
        self.stop = weakref.finalize(self, _stop, stop, thread)


def _send_heartbeats(store: Any, key: str, stop: Signal) -> None:
    # It may be inside torch's store longer than the exit waits for it.
    _core.this_thread_runs_upstream()
    try:
        while True:
            store.add(key, 1)
            if stop.wait(HEARTBEAT_S):
                return
    except RuntimeError:  # the store is gone; the next call of a rank reports that
        return


def _stop(stop: Signal, thread: threading.Thread) -> None:
    stop.set()
    if thread is not threading.current_thread():
        thread.join(_JOIN_S)


class Liveness(JsonStore):
    """The ranks of a group and which of them are gone; shared by a process's loaders.

    A rank on the same machine is gone when its process has ended, one on another
    machine when its heartbeat has stopped.

    Args:
        store: of torch.distributed, for this alone; all ranks share it.
        members: the numbers of the ranks in the whole job.
        rank: the index of this rank in `members`.
    """

    def __init__(self, store: Any, members: list[int], rank: int) -> None:
        super().__init__(store)
        self.members = members
        self.rank = rank
        self._processes: dict[int, Process] = {rank: Process.current()}
        self._heartbeats: dict[int, tuple[int, float]] = {}  # last count, and when
        self.set({f"process/{rank}": asdict(self._processes[rank])})
        self.heartbeat = Heartbeat(store, f"beat/{rank}")

    def check(self) -> None:
        """Raise `UpstreamError` that names the ranks that are gone, if any are."""
        ended, silent = self.find_gone()
        if ended:
            raise UpstreamError(f"{self._name(ended)} gone: no process is there.")
        if silent:
            raise UpstreamError(
                f"{self._name(silent)} gone: no sign of life for {SILENCE_S:.0f} s."
            )

    def gone(self) -> set[int]:
        """Return the ranks that are gone."""
        ended, silent = self.find_gone()
        return {*ended, *silent}

    def find_gone(self) -> tuple[list[int], list[int]]:
        """Return the ranks whose process has ended, and those without a heartbeat."""
        self.look_up()
        return self._find_ended(), self._find_silent()

    def _name(self, ranks: list[int]) -> str:
        """Return the ranks' numbers in the whole job, and a verb."""
        numbers = ", ".join(str(self.members[rank]) for rank in sorted(ranks))
        return f"rank {numbers} is" if len(ranks) == 1 else f"ranks {numbers} are"

    def explain_gone(self, failure: str) -> UpstreamError:
        """Return the error for a store that does not answer."""
        gone = self._find_ended()
        patience = time.monotonic() + _PATIENCE_S
        # A process that is being killed is still there when its connections are not,
        # and others may have ended for want of it by then.
        while not self._has_store_keeper(gone) and time.monotonic() < patience:
            time.sleep(0.01)
            gone = self._find_ended()
        if gone:
            return UpstreamError(f"{self._name(gone)} gone: {failure}")
        if not dist.is_initialized():
            return UpstreamError(
                "the process group was destroyed, whose store the ranks talk in."
            )
        return UpstreamError(
            "the store of the process group does not answer; the process that keeps "
            f"it, rank 0 or the agent of torchrun, is gone: {failure}"
        )

    def _has_store_keeper(self, gone: list[int]) -> bool:
        """Return whether rank 0, the usual keeper of the store, is in `gone`.

        True, too, where rank 0 is not on this machine and cannot be looked up.
        """
        local = [self.members[rank] for rank, _ in self._others(local=True)]
        return (
            not dist.is_initialized()
            or 0 not in local
            or any(self.members[rank] == 0 for rank in gone)
        )

    # ---- processes

    def look_up(self) -> None:
        """Read the processes of the ranks that have joined since the last call."""
        new = [rank for rank in range(len(self.members)) if rank not in self._processes]
        for rank in new:
            found = self.get(f"process/{rank}")
            if found is not None:
                self._processes[rank] = Process(**found)
        is_complete = len(self._processes) == len(self.members)
        if new and is_complete and not self._others(local=False):
            self.heartbeat.stop()  # no rank on another machine reads it

    def _others(self, local: bool) -> list[tuple[int, Process]]:
        own = self._processes[self.rank].machine
        return [
            (rank, process)
            for rank, process in self._processes.items()
            if rank != self.rank and (process.machine == own) is local
        ]

    def _find_ended(self) -> list[int]:
        return [rank for rank, process in self._others(True) if process.has_ended()]

    def _find_silent(self) -> list[int]:
        silent = []
        for rank, _ in self._others(False):
            count, now = self.add(f"beat/{rank}", 0), time.monotonic()
            last, since = self._heartbeats.get(rank, (None, now))
            if count != last:
                self._heartbeats[rank] = (count, now)
            elif now - since > SILENCE_S:
                silent.append(rank)
        return silent
