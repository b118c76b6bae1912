"""Who is there, on this machine and on others; and a store that is not."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch.distributed as dist

from echobuf import UpstreamError
from echobuf.torch.ranks import beat, meeting, roll
from echobuf.torch.ranks.meeting import Meeting
from echobuf.torch.ranks.process import Process
from echobuf.torch.ranks.roll import Roll


@pytest.fixture
def machines(monkeypatch):
    """Every process asked for is on another machine."""
    numbers = itertools.count()
    monkeypatch.setattr(
        Process, "this", lambda: Process(f"machine {next(numbers)}", os.getpid(), "")
    )
    monkeypatch.setattr(beat, "EVERY_S", 0.02)
    monkeypatch.setattr(meeting, "_LOOK_S", 0.05)


def meet(size, store=None, timeout=60):
    store = store or dist.HashStore()
    rolls = [Roll(store, list(range(10, 10 + size)), rank) for rank in range(size)]
    for each in rolls:
        each.check()
    return [Meeting(dist.PrefixStore("7", store), each, 7, timeout) for each in rolls]


def nothing():
    """Does not come."""


def whom():
    return "the others"


def beats():
    return [t for t in threading.enumerate() if t.name == "echobuf-beat"]


def test_ranks_on_other_machines_are_heard(machines, monkeypatch):
    store = dist.HashStore()
    one, two, _ = meet(3, store)
    assert len(beats()) == 3
    live = [1, 2]

    def now():
        """Time goes by with the beats of the slowest of those that live."""
        return 10.0 * min(store.add(f"beat/{rank}", 0) for rank in live)

    monkeypatch.setattr(roll, "time", SimpleNamespace(monotonic=now))
    end = now() + 3 * roll._SILENT_S
    assert one.wait_for(lambda: now() > end or None, whom), "nobody is silent"
    two._roll._beat.stop()
    live.remove(1)
    with pytest.raises(UpstreamError, match=r"^rank 11 is gone: "):
        one.wait_for(nothing, whom)


def test_on_one_machine_nobody_beats():
    meetings = meet(3)
    assert beats() == []
    del meetings


def test_a_dropped_meeting_beats_no_more(machines):
    meetings = meet(2)
    assert len(beats()) == 2
    del meetings
    assert beats() == []


def test_a_process_that_has_ended():
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(program) as running:
        own = Process.this()
        assert not own.is_gone()
        there = Process(own.machine, running.pid, _started(running.pid))
        assert not there.is_gone()
        assert Process(own.machine, running.pid, "1").is_gone(), (
            "its number, taken again"
        )
        running.kill()
        while not there.is_gone():  # a zombie, before it is waited for
            time.sleep(0.001)
    assert there.is_gone()


def _started(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


def test_a_rank_that_lives_and_does_not_come(monkeypatch):
    one, two = meet(2, timeout=0.4)
    two.set({"begin/1": {}})
    monkeypatch.setattr(meeting, "_LONG_S", 0.2)
    missing = functools.partial(one.missing, "begin")
    with (
        pytest.raises(
            UpstreamError,
            match=r"waited 0:00:00.4\d* for rank 10 \(with its loader number 7",
        ),
        pytest.warns(UserWarning, match="has waited 0 s for rank 10"),
    ):
        one.wait_for(nothing, missing)


def test_a_store_in_a_file(tmp_path):
    one, two = meet(2, dist.FileStore(str(tmp_path / "store"), 2))
    one.set({"x/0": {"a": [1]}})
    assert one.get_all("x") is None
    assert two.get("x/0") == {"a": [1]}
    assert two.get("x/1") is None
    two.set({"x/1": 2, "y": 3})
    assert one.get_all("x") == one.read_all("x") == [{"a": [1]}, 2]
    one.delete("x/0")
    assert one.get_all("x") is None


class Gone:
    """A store whose process has ended."""

    def __getattr__(self, name):
        def fail(*_):
            raise dist.DistNetworkError("Connection reset by peer")

        return fail


def test_a_store_that_is_gone():
    for call in (
        lambda one: one.set({"x": 1}),
        lambda one: one.get("x"),
        lambda one: one.get_all("x"),
        lambda one: one.read_all("x"),
        lambda one: one.delete("x"),
    ):
        one, _ = meet(2)
        one._board._store = Gone()
        with pytest.raises(UpstreamError, match="the process group was destroyed"):
            call(one)
        one._board._store = None  # nothing more is asked of it
        with pytest.raises(UpstreamError, match="the process group was destroyed"):
            call(one)
