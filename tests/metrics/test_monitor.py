"""`Monitor`: what is written, when, and what a sink cannot do."""

import dataclasses
import gc
import math
import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import echobuf
from echobuf.metrics import Monitor, Sink, metrics_of
from helpers import WAIT_S, Worker

RAGGED = {"payload_bytes", "payload_capacity", "mean_rows", "padding_share"}
FIELDS = {field.name for field in dataclasses.fields(echobuf.Stats)}
KEYS = {f"echobuf/{name}" for name in FIELDS - RAGGED}


class Recorder:
    """A sink that keeps what it is given."""

    def __init__(self):
        self.rows = []
        self.ends = 0

    def write(self, step, metrics):
        self.rows.append((step, dict(metrics)))

    def end(self):
        self.ends += 1


def make_loader(n=40, **kwargs):
    kwargs = {"batch_size": 4, "window": 8, "factor": 2, **kwargs}
    return echobuf.EchoLoader([np.int64(i) for i in range(n)], **kwargs)


def test_yields_the_loaders_batches():
    expected = [batch.tolist() for batch in make_loader()]
    monitor = Monitor(make_loader(), Recorder())
    assert [batch.tolist() for batch in monitor] == expected
    assert monitor.steps == len(expected) == 20


def test_writes_at_each_step_with_every_s_0_and_at_the_end():
    sink = Recorder()
    monitor = Monitor(make_loader(), sink, every_s=0, first_step=100)
    for count, _ in enumerate(monitor):
        assert len(sink.rows) == count
        assert not count or sink.rows[-1][0] == 100 + count
    assert [step for step, _ in sink.rows] == [*range(101, 121), 120]
    assert [row["echobuf/served"] for _, row in sink.rows[:-1]] == [*range(4, 84, 4)]
    last = sink.rows[-1][1]
    assert last.keys() == KEYS
    assert last["echobuf/fresh"] == 40
    assert last == pytest.approx(metrics_of(monitor.source.stats()), abs=1)
    assert sink.ends == 1


class Slow:
    """A source whose thread gives way before each batch."""

    def __init__(self, loader):
        self.loader, self.stats = loader, loader.stats

    def __iter__(self):
        for batch in self.loader:
            threading.Event().wait(1e-4)
            yield batch


def test_threads_share_the_batches_of_one_iterator():
    sink = Recorder()
    monitor = Monitor(Slow(make_loader()), sink, every_s=0)
    iterator, start = iter(monitor), threading.Barrier(4)

    def draw():
        start.wait(WAIT_S)
        return [batch.tolist() for batch in iterator]

    results = [worker.result() for worker in [Worker(draw) for _ in range(4)]]
    got = [number for batches in results for batch in batches for number in batch]
    assert sorted(got) == sorted(2 * list(range(40)))
    assert monitor.steps == 20
    assert [step for step, _ in sink.rows] == [*range(1, 21), 20]
    assert sink.ends == 1


def test_unknown_values_are_left_out():
    with echobuf.EchoBuffer(np.int64(0), batch_size=1, window=2) as buffer:
        stats = buffer.stats()
        assert math.isnan(stats.ratio)
        known = {key.rpartition("/")[2] for key in metrics_of(stats)}
        assert known.isdisjoint({"ratio", "t_upstream_s", "t_downstream_s"})
        assert "train/fresh" in metrics_of(stats, "train")


def test_writes_no_more_often_than_every_s():
    sink = Recorder()
    monitor = Monitor(make_loader(), sink, every_s=1e6)
    for epoch in range(3):
        assert len(list(monitor)) == 20
        assert [step for step, _ in sink.rows] == [20 * n for n in range(1, epoch + 2)]
    assert sink.ends == 3


def test_time_decides_when_it_writes(monkeypatch):
    times = iter([50.0, 51.0, 52.0, 52.5, 53.0, 54.9, 55.0, 70.0, 71.0])
    clock = SimpleNamespace(monotonic=lambda: next(times))  # of no other thread
    monkeypatch.setattr("echobuf.metrics.monitor.time", clock)
    sink = Recorder()
    monitor = Monitor(make_loader(), sink, every_s=2.5)
    for _ in range(8):
        monitor.step()
    assert [step for step, _ in sink.rows] == [3, 6, 7]


def test_a_loop_that_is_left_writes_a_last_time():
    sink = Recorder()
    for _ in Monitor(make_loader(), sink):
        break
    assert [step for step, _ in sink.rows] == [0]  # the step was not ended
    assert sink.ends == 1


def test_an_error_of_upstream_is_what_the_loop_raises():
    def fail():
        yield np.int64(0)
        raise ValueError("disk")

    sink = Recorder()
    loader = echobuf.EchoLoader(fail(), batch_size=1, window=1, factor=1)
    with pytest.raises(echobuf.UpstreamError, match="disk"):
        list(Monitor(loader, sink))
    assert sink.ends == 1


def test_monitors_a_buffer_and_steps_of_the_callers_loop():
    sink = Recorder()
    with echobuf.EchoBuffer(np.int64(0), batch_size=2, window=4) as buffer:
        monitor = Monitor(buffer, sink, every_s=0, prefix="valid")
        buffer.put_batch(np.arange(4))
        buffer.next_batch()
        monitor.step()
        buffer.close()
        loop = iter(monitor)
        next(loop)
    del loop  # after its context was left: nothing more to say
    assert [(step, row["valid/served"]) for step, row in sink.rows] == [(1, 2)]
    assert sink.ends == 1


def test_a_batch_is_the_callers_alone():
    class Batch:
        pass

    class Source:
        stats = make_loader().stats

        def __iter__(self):
            yield Batch()

    for batch in Monitor(Source()):
        there = weakref.ref(batch)
        del batch
        gc.collect()
        assert there() is None


class Failing(Recorder):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, step, metrics):
        super().write(step, metrics)
        raise self.error


def test_a_sink_that_raises_is_warned_of_once_and_left_out():
    bad, good = Failing(OSError("disk full")), Recorder()
    monitor = Monitor(make_loader(), bad, good, every_s=0)
    with pytest.warns(RuntimeWarning, match=r"Failing.*disk full") as warned:
        assert len(list(monitor)) == 20
    assert len(warned) == 1
    assert len(bad.rows) == 1
    assert len(good.rows) == 21
    assert bad.ends == 0


def test_exceptions_that_end_the_program_pass_through_sinks():
    monitor = Monitor(make_loader(), Failing(KeyboardInterrupt()), every_s=0)
    with pytest.raises(KeyboardInterrupt):
        list(monitor)


def test_len_is_that_of_the_loader():
    assert len(Monitor(make_loader())) == 20
    with pytest.raises(TypeError):
        len(Monitor(make_loader(factor="auto")))


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (([1, 2],), {}, "`source`"),
        ((make_loader(), object()), {}, "`sinks`"),
        ((make_loader(), Recorder), {}, "`sinks`"),
        ((make_loader(),), {"every_s": -1}, "`every_s` is -1"),
        ((make_loader(),), {"every_s": math.nan}, "`every_s`"),
        ((make_loader(),), {"every_s": "1"}, "`every_s`"),
        ((make_loader(),), {"first_step": -1}, "`first_step`"),
        ((make_loader(),), {"nvtx": 1}, "`nvtx`"),
    ],
)
def test_arguments_that_are_refused(arguments, options, said):
    with pytest.raises(echobuf.OptionError, match=said):
        Monitor(*arguments, **options)


def test_a_sink_is_known_by_its_method():
    assert isinstance(Recorder(), Sink)
    assert not isinstance(object(), Sink)


def test_nothing_is_imported_before_it_is_wanted():
    code = (
        "import sys, echobuf.metrics\n"
        "from echobuf.metrics import *\n"
        "print({'rich', 'tensorboard', 'wandb', 'prometheus_client', 'nvtx', 'torch'}"
        " & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_unknown_names():
    with pytest.raises(AttributeError, match="Wandb"):
        echobuf.metrics.Wandb  # noqa: B018
