"""Workers that die, and datasets that fail."""

import contextlib
import functools
import os
import random
import select
import signal
import weakref

import pytest

import echobuf
import ragged_worker_data
import worker_data
from echobuf.loader import pool_reader
from echobuf.loader.loader import internals_of
from echobuf.workers import pool
from echobuf.workers.process import WorkerProcess, join_all
from helpers import WAIT_S, until
from ragged_worker_data import Texts
from ragged_worker_data import load as load_ragged
from same_batches import count_same
from worker_data import Numbers, Troubled, ids, workers_alive
from worker_data import load_spawned as load

N = 400


def kill(worker):
    with contextlib.suppress(ProcessLookupError):  # one that was killed before
        os.kill(worker.pid, signal.SIGKILL)


@pytest.fixture
def started(monkeypatch):
    """Collect all workers that are started."""
    workers = []

    def start(*args):
        workers.append(WorkerProcess(*args))
        return workers[-1]

    for module in (pool, pool_reader):
        monkeypatch.setattr(module, "WorkerProcess", start)
    return workers


@pytest.mark.parametrize(
    ("load", "dataset", "has_pidfds"),
    [
        (load, Numbers(N), True),
        (load, Numbers(N), False),
        (load_ragged, Texts(N), True),
    ],
)
def test_killed_workers_change_nothing(load, dataset, has_pidfds, monkeypatch):
    if not has_pidfds:  # as Python is where it was built for musl
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    dice = random.Random(3)
    loader = load(dataset, 2, max_restarts=100)
    served, killed = [], 0
    for number, batch in enumerate(loader):
        served.append(batch)
        if number % 30 == 10 and (alive := workers_alive()):
            kill(dice.choice(alive))
            killed += 1
    assert killed > 3
    assert count_same(served, load(dataset, 0)) == len(served)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [(worker_data.leave, "exit code 3"), (worker_data.crash, r"signal 11 \(SIGSEGV\)")],
)
def test_a_worker_that_dies_too_often_is_an_error(trouble, said, tmp_path, started):
    flag = tmp_path / "flag"
    flag.touch()
    loader = load(Troubled(N, trouble, 50, flag), 1, max_restarts=1)
    with pytest.raises(echobuf.UpstreamError, match=f"{said}.*`max_restarts` allows 1"):
        ids(loader)
    flag.unlink()
    supervisor = internals_of(loader).reader.pool.supervisor
    with supervisor.lock:  # it has finished
        assert len(started) == 2
    assert sum(map(len, ids(loader))) == 2 * N  # the next epoch has new ones


def test_dying_between_epochs_is_not_counted():
    loader = load(Numbers(40), 1, max_restarts=0)
    alone = load(Numbers(40), 0)
    for _ in range(2):
        assert ids(loader) == ids(alone)
        (worker,) = workers_alive()
        kill(worker)
        until(lambda worker=worker: not worker.is_alive())


def test_dying_between_epochs_is_not_counted_if_it_is_noticed_late(started):
    loader = load(Numbers(40), 1, max_restarts=0)
    ids(loader)
    supervisor = internals_of(loader).reader.pool.supervisor
    with supervisor.lock:  # before it notices the death
        kill(started[0].process)
        until(lambda: started[0].is_pipe_closed and not started[0].process.is_alive())
        epoch = iter(loader)
    assert len(ids(epoch)) == 20
    until(lambda: [worker.pipe.closed for worker in started] == [True, False])
    ids(loader)
    assert len(started) == 2


@pytest.mark.parametrize(
    ("trouble", "error", "cause"),
    [
        (worker_data.raise_value, echobuf.UpstreamError, "no such example"),
        (worker_data.raise_unlikely, echobuf.UpstreamError, "UnlikelyError: 1 and 2"),
        (
            worker_data.misshape,
            echobuf.SpecError,
            "example 50 of upstream does not fit",
        ),
    ],
)
def test_an_error_of_a_dataset_reaches_the_loop_and_the_next_epoch_works(
    trouble, error, cause, tmp_path
):
    flag = tmp_path / "flag"
    flag.touch()
    loader = load(Troubled(N, trouble, 50, flag), 1, max_restarts=0)
    for _ in range(2):
        with pytest.raises(error, match=cause) as caught:
            ids(loader)
        assert isinstance(caught.value, echobuf.UpstreamError)
    flag.unlink()
    assert sum(map(len, ids(loader))) == 2 * N


def test_an_error_of_the_sampler_reaches_the_loop():
    def indices():
        yield from range(60)
        yield "sixty"

    class Sampler:
        def __iter__(self):
            return indices()

    for workers in (0, 1):
        with pytest.raises(echobuf.UpstreamError, match="yielded 'sixty'"):
            ids(load(Numbers(N), workers, sampler=Sampler()))


def test_a_failed_sampler_is_freed_though_the_error_is_kept():
    made = []

    class Indices(list):
        def __iter__(self):
            each = Each()
            made.append(weakref.ref(each))
            return each

    class Each:
        index = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.index += 1
            return self.index if self.index < 20 else "twenty"

    loader = load(Numbers(N), 1, sampler=Indices())
    with pytest.raises(echobuf.UpstreamError, match="yielded 'twenty'") as caught:
        ids(loader)
    until(lambda: made[0]() is None)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("init", "said"),
    [
        (worker_data.leave_at_once, "exit code 4 before its first example"),
        (worker_data.refuse, "worker 0 has nothing to read"),
    ],
)
def test_a_worker_that_cannot_begin_is_an_error_at_once(init, said):
    loader = load(Numbers(N), 1, worker_init_fn=init, max_restarts=1000)
    for _ in range(2):
        with pytest.raises(echobuf.UpstreamError, match=said):
            ids(loader)


@pytest.mark.parametrize(
    "load_hanging",
    [
        lambda flag: load(Troubled(N, worker_data.hang, 16), 2),
        lambda flag: load(Troubled(N, worker_data.hang, 16), 2, in_order=False),
        lambda flag: load_ragged(
            ragged_worker_data.Troubled(N, ragged_worker_data.hanging, 16, flag), 1
        ),
    ],
)
def test_a_loader_whose_worker_hangs_can_be_dropped(load_hanging, tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    loader = load_hanging(flag)
    epoch = iter(loader)
    next(epoch)
    until(lambda loader=loader: loader.stats().fresh >= 16)
    del loader, epoch  # see `nothing_left`


@pytest.mark.parametrize(
    ("hang", "code"),
    [
        (worker_data.hang, -signal.SIGTERM),
        (worker_data.hang_until_told, 5),
        (worker_data.hang_for_good, -signal.SIGKILL),
    ],
)
def test_an_epoch_whose_worker_hangs_can_be_left(
    tmp_path, monkeypatch, started, hang, code
):
    monkeypatch.setattr(pool, "_STUCK_S", 0.1)
    patience = 0.1 if code == -signal.SIGKILL else WAIT_S
    monkeypatch.setattr(pool, "PATIENCE_S", patience)
    flag, hangs = tmp_path / "flag", tmp_path / "hangs"
    flag.touch()
    trouble = worker_data.Once(flag, functools.partial(hang, hangs))
    loader = load(Troubled(N, trouble, 16, flag), 1)
    epoch = iter(loader)
    next(epoch)
    until(hangs.exists)
    del epoch
    internals_of(loader).starter.join()
    assert [worker.process.exitcode for worker in started] == [code]
    alone = load(Numbers(N), 0)
    alone.set_epoch(1)
    assert ids(loader) == ids(alone)


class Undying:
    """A stand-in for a worker in uninterruptible sleep: no signal ends it."""

    def __init__(self, sentinel):
        self.sentinel = sentinel
        self.process = self
        self.heard = []

    def __getattr__(self, name):
        return lambda: self.heard.append(name)


def test_a_worker_that_cannot_be_killed_is_not_waited_for():
    ends = os.pipe()
    worker = Undying(ends[0])
    join_all([worker], 0.01)
    for end in ends:
        os.close(end)
    assert worker.heard == ["terminate", "kill", "reap"]


def test_a_wake_up_is_read_once():
    loader = load(Numbers(8), 1)
    ids(loader)
    woken_fd = internals_of(loader).reader.pool.supervisor.woken_fd
    until(lambda: not select.select([woken_fd], [], [], 0)[0])
