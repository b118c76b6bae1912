"""The window goes back to the system when its owner is closed, or dropped."""

import gc
import sys
import time
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

import echobuf
from helpers import WAIT_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
MB = 1 << 20
WINDOW, BATCH, HELD = 192, 16, 3  # records of a megabyte
RING = 256 * MB  # the window, and a segment of a third of it
NOISE = 12 * MB  # less than a batch
KWARGS = {"batch_size": BATCH, "window": WINDOW, "factor": 3}
RECORD = np.ones(MB, np.uint8)


class Records:
    """More than fit, so that the thread that feeds them waits for room."""

    def __init__(self, is_ragged=False):
        self.is_ragged = is_ragged

    def __len__(self):
        return 2 * WINDOW

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(index)
        return {"x": RECORD[index:] if self.is_ragged else RECORD, "y": index}


def ragged():
    payload = {"payload_bytes": RING, "ragged": {"x": "packed", "y": None}}
    return echobuf.EchoLoader(Records(is_ragged=True), **KWARGS, **payload)


def of_tensors():
    pytest.importorskip("torch")
    import echobuf.torch  # here: workers import this file

    return echobuf.torch.EchoLoader(Records(), **KWARGS)


LOADERS = {
    "plain": lambda: echobuf.EchoLoader(Records(), **KWARGS),
    "prefetch": lambda: echobuf.EchoLoader(Records(), prefetch=4, **KWARGS),
    "ragged": ragged,
    "overlap": lambda: echobuf.EchoLoader(Records(), overlap_epochs=True, **KWARGS),
    "torch": of_tensors,
    "workers": lambda: echobuf.EchoLoader(Records(), num_workers=1, **KWARGS),
}
every_loader = pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS)


def resident_bytes():
    """Bytes of this process in memory, but for files; of shared ones, too."""
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status if ":" in line)
    return sum(1024 * int(lines[key].split()[0]) for key in ("RssAnon", "RssShmem"))


@contextmanager
def without_collector():
    """A cycle of references is never found in it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def fill(loader):
    """Draw until the window is full; return the iterator."""
    batches = iter(loader)
    before = resident_bytes()
    next(batches)
    deadline = time.monotonic() + WAIT_S
    while loader.stats().fresh < WINDOW:
        assert time.monotonic() < deadline
        next(batches)
    assert resident_bytes() - before > RING // 2
    return batches


@every_loader
def test_a_closed_loader_keeps_nothing_but_the_batches_of_its_callers(make):
    loader = make()
    before = resident_bytes()
    batches = fill(loader)
    held = [next(batches) for _ in range(HELD)]
    loader.close()
    assert resident_bytes() - before < HELD * BATCH * MB + NOISE
    del held[1:]  # its blocks have no pool to wait in
    assert resident_bytes() - before < BATCH * MB + NOISE
    del held[:]
    assert resident_bytes() - before < NOISE


@every_loader
def test_a_loader_dropped_half_way_gives_its_window_back_at_once(make):
    with without_collector():
        before = resident_bytes()
        loader = make()
        batches = fill(loader)
        del batches, loader
        until(lambda: resident_bytes() - before < NOISE)


class Failing(Records):
    def __getitem__(self, index):
        if index == WINDOW:
            raise OSError("no such record")
        return super().__getitem__(index)


class FailingIterator(Records):
    """An iterator that is no generator: its frame has that of its caller."""

    def __iter__(self):
        self.index = -1
        return self

    def __next__(self):
        self.index += 1
        if self.index == WINDOW:
            raise OSError("no such record")
        return super().__getitem__(self.index)


class Misfit(Records):
    def __getitem__(self, index):
        item = super().__getitem__(index)
        return {**item, "x": RECORD[1:]} if index == WINDOW else item


@pytest.mark.parametrize("kind", [Failing, FailingIterator, Misfit])
def test_a_loader_whose_upstream_has_failed_gives_its_window_back(kind):
    with without_collector():
        before = resident_bytes()
        loader = echobuf.EchoLoader(kind(), **KWARGS)
        with pytest.raises(echobuf.UpstreamError) as caught:
            list(loader)
        del caught, loader
        until(lambda: resident_bytes() - before < NOISE)


def put_until_full(buffer, example):
    while True:
        buffer.put(example, timeout=0)


@pytest.mark.parametrize("prefetch", [0, 4])
def test_a_buffer_that_is_left_or_dropped_gives_its_window_back(prefetch):
    def fill_up():
        buffer = echobuf.EchoBuffer(RECORD, prefetch=prefetch, **KWARGS)
        with pytest.raises(TimeoutError):
            put_until_full(buffer, RECORD)
        return buffer, [buffer.next_batch() for _ in range(HELD)]

    with without_collector():
        before = resident_bytes()
        buffer, held = fill_up()
        assert resident_bytes() - before > RING - NOISE
        with buffer:
            pass
        del held[1:]
        assert resident_bytes() - before < BATCH * MB + NOISE
        del held
        buffer, held = fill_up()
        del buffer
        assert resident_bytes() - before < HELD * BATCH * MB + NOISE
        del held
        assert resident_bytes() - before < NOISE


def test_what_a_buffer_takes_is_what_it_says():
    before = resident_bytes()
    buffer = echobuf.EchoBuffer(RECORD, **KWARGS)
    with pytest.raises(TimeoutError):
        put_until_full(buffer, RECORD)
    buffer.next_batch()
    taken = resident_bytes() - before
    assert taken < 1.05 * buffer.stats().bytes_host + NOISE


def test_an_error_that_was_caught_holds_no_frame():
    """A frame that an error holds, and that holds it, keeps what its callers have."""

    class Mark:
        pass

    def put_too_much():
        mark = Mark()
        buffer = echobuf.EchoBuffer(np.int64(0), batch_size=1, window=1, factor=1)
        with pytest.raises(TimeoutError):
            put_until_full(buffer, np.int64(1))
        buffer.close()
        with pytest.raises(echobuf.ClosedError):
            buffer.put(np.int64(1))
        seen.append(weakref.ref(mark))

    seen = []
    with without_collector():
        put_too_much()
        assert seen[0]() is None
