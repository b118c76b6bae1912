"""`overlap_epochs=True` at a server: an epoch ahead is given up, not more."""

import gc
import threading

import pytest
from serve_data import NAME, example, ids_of

from echobuf import EchoLoader, UpstreamError, serve
from echobuf.loader.loader import internals_of
from helpers import until

N, WINDOW, FACTOR = 60, 8, 3
KWARGS = {
    "window": WINDOW,
    "batch_size": 4,
    "factor": FACTOR,
    "overlap_epochs": True,
}


class Epochs:
    """An upstream whose second epoch waits for `gate` at its third example."""

    def __init__(self):
        self.epoch = -1
        self.gate = threading.Event()

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        epoch = self.epoch
        for number in range(N):
            if (epoch, number) == (1, 2):
                assert self.gate.wait(60)
            yield example(1000 * epoch + number)


@pytest.fixture
def upstream():
    upstream = Epochs()
    yield upstream
    upstream.gate.set()


@pytest.fixture
def server(upstream):
    with serve.Server(upstream, NAME, window=WINDOW, lag=4) as server:
        yield server
        upstream.gate.set()


def draw_until_ahead(loader):
    """Return an iterator whose next epoch has begun, and the batches that it served."""
    epoch, served = iter(loader), []
    starter = internals_of(loader).starter
    while starter.early is None:
        if starter.buffer is not None and starter.buffer.is_draining():
            until(starter.reader.is_ready)  # the server may be slow to begin it
        served += ids_of(next(epoch))
    assert internals_of(loader).starter.early[0].feeder is not None
    return epoch, served


def is_whole(served, epoch):
    return sorted(served) == sorted(
        FACTOR * list(range(1000 * epoch, 1000 * epoch + N))
    )


def test_an_iterator_goes_on_without_its_loader(server, upstream):
    loader = EchoLoader(serve.attach(NAME), **KWARGS)
    epoch, served = draw_until_ahead(loader)
    del loader
    gc.collect()
    upstream.gate.set()
    # The server keeps what is still to be drawn.
    assert [job.held > 0 for job in serve.status(NAME).jobs] == [True]
    for batch in epoch:
        served += ids_of(batch)
    assert is_whole(served, 0)
    del epoch, batch
    gc.collect()
    until(lambda: not serve.status(NAME).jobs)


@pytest.mark.parametrize("how", ["set_epoch", "load_state_dict", "left", "interrupted"])
def test_an_epoch_that_is_ahead_and_not_wanted(server, upstream, how, monkeypatch):
    with serve.attach(NAME) as attached:
        loader = EchoLoader(attached, **KWARGS)
        state = loader.state_dict()
        epoch, served = draw_until_ahead(loader)
        wanted = 2  # of the server's: the one that was ahead is given up
        if how == "set_epoch":
            loader.set_epoch(7)
            for batch in epoch:
                served += ids_of(batch)
            assert is_whole(served, 0)
        elif how == "load_state_dict":
            loader.load_state_dict(state)
        elif how == "left":
            wanted = 1
        else:
            engine = internals_of(loader).starter.buffer
            with monkeypatch.context() as patch:
                patch.setattr(engine, "go_ahead", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    iter(loader)
            gc.collect()
        upstream.gate.set()
        # Nor does the server wait for who gave it up.
        assert is_whole([each for batch in loader for each in ids_of(batch)], wanted)
        after = [each for batch in loader for each in ids_of(batch)]
        assert is_whole(after, wanted + 1)


def interrupted(*_):
    raise KeyboardInterrupt


def test_nothing_is_drawn_once_it_is_left(server, upstream):
    attached = serve.attach(NAME)
    loader = EchoLoader(attached, **KWARGS)
    epoch, _ = draw_until_ahead(loader)
    attached.close()
    with pytest.raises(UpstreamError, match="was left"):
        next(epoch)
    upstream.gate.set()
    until(lambda: not serve.status(NAME).jobs)


def test_more_epochs_ahead_than_a_server_may_be():
    data = [example(number) for number in range(9)]
    with serve.Server(data, NAME, window=WINDOW), serve.attach(NAME) as attached:
        loader = EchoLoader(attached, **KWARGS)
        for _ in range(140):  # of each the end is kept until the job has left it
            served = [number for batch in loader for number in ids_of(batch)]
            assert sorted(served) == sorted(FACTOR * list(range(9)))
        del loader
