"""Liveness of ranks, on this machine and on others."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch.distributed as dist

from echobuf import UpstreamError
from echobuf.ranks import liveness, store
from echobuf.ranks.liveness import Process
from helpers import until
from ranks.rank_stores import make_stores, never, others


@pytest.fixture
def other_machines(monkeypatch):
    """Let every rank run on another machine."""
    numbers = itertools.count()
    monkeypatch.setattr(
        Process, "current", lambda: Process(f"machine {next(numbers)}", os.getpid(), "")
    )
    monkeypatch.setattr(liveness, "HEARTBEAT_S", 0.02)
    monkeypatch.setattr(store, "CHECK_S", 0.05)


def heartbeats():
    return [t for t in threading.enumerate() if t.name == "echobuf-beat"]


def test_a_rank_on_another_machine_is_gone_without_heartbeats(
    other_machines, monkeypatch
):
    torch_store = dist.HashStore()
    one, two, _ = make_stores(3, torch_store)
    assert len(heartbeats()) == 3
    alive = [1, 2]

    def now():
        """Return a time that goes by with the heartbeats of the slowest rank."""
        return 10.0 * min(torch_store.add(f"beat/{rank}", 0) for rank in alive)

    monkeypatch.setattr(liveness, "time", SimpleNamespace(monotonic=now))
    end = now() + 3 * liveness.SILENCE_S
    assert one.wait_for(lambda: now() > end or None, others), "no rank is silent"
    two.liveness.heartbeat.stop()
    alive.remove(1)
    with pytest.raises(UpstreamError, match=r"^rank 11 is gone: "):
        one.wait_for(never, others)


def test_ranks_on_one_machine_have_no_heartbeat():
    stores = make_stores(3)
    assert heartbeats() == []
    del stores


def test_a_dropped_store_has_no_heartbeat(other_machines):
    stores = make_stores(2)
    assert len(heartbeats()) == 2
    del stores
    assert heartbeats() == []


def test_a_killed_process_has_ended():
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(program) as running:
        own = Process.current()
        assert not own.has_ended()
        other = Process(own.machine, running.pid, _started(running.pid))
        assert not other.has_ended()
        assert Process(own.machine, running.pid, "1").has_ended(), (
            "its number, used again"
        )
        running.kill()
        until(other.has_ended)  # a zombie, before it is waited for
    assert other.has_ended()


def _started(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]
