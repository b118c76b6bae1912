"""`analyze` of an `EchoLoader`: of what it reads, with its workers and settings."""

from __future__ import annotations

import multiprocessing
import time

import numpy as np
import pytest

import echobuf
from echobuf import EchoLoader
from echobuf.transforms import ToDtype
from helpers import until
from slow_data import Slow

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

ITEM_S = 0.004


def step(batch):
    time.sleep(1e-3)


def analyzed(loader, seconds=1.0, step=step):
    return echobuf.analyze(loader, step, seconds=seconds).measurements


def test_an_example_is_measured_once_and_not_each_of_its_echoes():
    loader = EchoLoader(Slow(200, ITEM_S), batch_size=10, window=40, factor=4)
    found = analyzed(loader)
    assert found.upstream_s.mean >= ITEM_S
    assert (found.batch_size, found.window, found.length) == (10, 40, 200)
    assert found.loader is None


def test_settings_that_are_given_come_first():
    loader = EchoLoader(Slow(200, 1e-4), batch_size=10, window=40, max_factor=5)
    assert analyzed(loader, 0.3).max_factor == 5
    report = echobuf.analyze(loader, step, seconds=0.3, window=90, max_factor=3)
    assert (report.measurements.window, report.measurements.max_factor) == (90, 3)


def test_the_step_of_a_loader_with_infos_gets_them():
    got = []
    loader = EchoLoader(
        Slow(200, 1e-4), batch_size=10, window=40, factor=4, with_info=True
    )
    analyzed(loader, 0.3, lambda given: got.append(given) or step(given))
    assert len(got) > 2
    for batch, info in got:
        assert isinstance(info, echobuf.BatchInfo)
        assert len(info.index) == len(batch)
        assert not info.echo.any()  # an analysis does not echo


def test_workers_of_a_loader_are_measured_and_advised_with():
    loader = EchoLoader(
        Slow(400, ITEM_S), batch_size=10, window=40, factor=4, num_workers=2
    )
    report = echobuf.analyze(loader, step, seconds=2)
    found = report.measurements
    assert found.loader is not None
    assert found.loader.workers == 2
    assert found.loader.fetch_s >= ITEM_S
    assert found.upstream_s.mean >= ITEM_S / 2
    assert found.length == 400
    names = [remedy.name for remedy in report.remedies]
    assert any(name.startswith("4 workers") for name in names)
    assert not any(name.startswith("2 workers") for name in names)
    assert "in each of 2 workers" in str(report)
    until(lambda: not multiprocessing.active_children())  # they have been ended


def test_the_step_is_given_what_the_loader_would_give_it():
    seen = set()

    def step(batch):
        seen.add((batch.dtype, batch.shape))
        time.sleep(1e-3)

    transform = ToDtype(np.float32, scale=True)
    images = [np.zeros((4, 4, 3), np.uint8)] * 100
    loader = EchoLoader(images, batch_size=10, window=20, transform=transform)
    analyzed(loader, 0.3, step)
    assert seen == {(np.dtype(np.float32), (10, 4, 4, 3))}


def test_batches_that_are_echoed_whole():
    batches = [np.zeros((10, 3))] * 100
    found = analyzed(EchoLoader(batches, unit="batch", window=4), 0.3)
    assert found.batch_size == 10


def test_a_sampler_that_gives_one_epoch_is_said():
    loader = EchoLoader(
        Slow(50, 1e-4), sampler=iter(range(50)), batch_size=5, window=10
    )
    with pytest.raises(echobuf.UpstreamError, match=r"`sampler`.*one epoch only"):
        analyzed(loader, 0.3)


def test_a_window_that_is_left_out_is_that_of_the_first_batch():
    batches = [np.zeros((6, 2)) for _ in range(50)]
    loader = EchoLoader(batches, batched=True, factor=2)
    found = analyzed(loader, 0.2)
    assert (found.batch_size, found.window) == (6, 192)


def test_a_loader_that_was_closed_is_refused():
    loader = EchoLoader(Slow(20, 1e-4), batch_size=10)
    loader.close()
    with pytest.raises(echobuf.ClosedError, match="this loader was closed"):
        echobuf.analyze(loader, step, seconds=0.2)
