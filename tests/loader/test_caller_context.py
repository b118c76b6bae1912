"""Upstream runs on one thread, in the context in which `iter(loader)` was called."""

import contextvars
import decimal
import sqlite3
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import echobuf
from leaked_threads import no_feeder

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

KWARGS = {"batch_size": 4, "window": 8, "factor": 1}
RAGGED = {"ragged": "packed", "payload_bytes": 1000}
VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


@contextmanager
def variable(value):
    token = VARIABLE.set(value)
    yield
    VARIABLE.reset(token)


class Map:
    """A dataset whose examples hold what a function returns; of one or two lengths."""

    def __init__(self, look, lengths):
        self.look = look
        self.lengths = lengths

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return np.full(1 + index % self.lengths, self.look(), np.int64)


class Seen(Map):
    """An iterable of these."""

    def __iter__(self):
        return map(self.__getitem__, range(24))


def values(batches):
    leaves = [getattr(batch, "values", batch) for batch in batches]
    return {*np.concatenate(leaves).reshape(-1).tolist()}


def torch():
    return pytest.importorskip("torch")


def jax():
    return pytest.importorskip("jax")


def np_divides():
    with np.errstate(invalid="ignore"):
        return np.geterr()["divide"] == "raise"


KINDS = {
    "variable": lambda: (variable(1), VARIABLE.get),
    "decimal": lambda: (
        decimal.localcontext(decimal.Context(prec=5)),
        lambda: decimal.getcontext().prec,
    ),
    "errstate": lambda: (np.errstate(divide="raise"), np_divides),
    "no_grad": lambda: (torch().no_grad(), torch().is_grad_enabled),
    "inference_mode": lambda: (
        torch().inference_mode(),
        torch().is_inference_mode_enabled,
    ),
    "autocast": lambda: (
        torch().autocast("cpu", dtype=torch().float16, cache_enabled=False),
        lambda: (
            torch().is_autocast_enabled("cpu")
            and torch().get_autocast_dtype("cpu") == torch().float16
            and not torch().is_autocast_cache_enabled()
        ),
    ),
    "device": lambda: (
        torch().device("meta"),
        lambda: torch().empty(1).device.type == "meta",
    ),
    "x64": lambda: (jax().enable_x64(True), lambda: jax().numpy.ones(1).dtype == "f8"),
    "jit": lambda: (jax().disable_jit(True), lambda: jax().config.jax_disable_jit),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kwargs", [{}, RAGGED, {"sampler": range(24)}])
def test_every_item_has_what_is_in_force_at_iter(kind, kwargs):
    context, look = KINDS[kind]()
    outside = int(look())
    kind = Map if "sampler" in kwargs else Seen
    upstream = kind(look, lengths=1 + (kwargs is RAGGED))
    loader = echobuf.EchoLoader(upstream, **KWARGS, **kwargs)
    assert values(loader) == {outside}
    with context:
        inside = int(look())
        epoch = iter(loader)
    assert inside != outside == int(look())
    assert values(epoch) == {inside}
    assert values(loader) == {outside}  # the next epoch has it no more


def test_what_upstream_sets_itself_is_its_own():
    grad = torch().is_grad_enabled

    class Set:
        def __iter__(self):
            with torch().no_grad(), variable(7):
                for _ in range(24):
                    yield np.int64(grad()), np.int64(VARIABLE.get())

    loader = echobuf.EchoLoader(Set(), **KWARGS)
    for _ in range(2):
        epoch = iter(loader)
        assert grad()
        assert VARIABLE.get() == 0
        for seen, value in epoch:
            assert not seen.any()
            assert (value == 7).all()


class Notes:
    """An upstream, or a dataset, or a sampler, which notes the threads that call it."""

    def __init__(self, count=24):
        self.threads = []
        self.count = count
        self.connection = None
        self.lengths = 1

    def __len__(self):
        return self.count

    def note(self):
        self.threads.append(threading.get_ident())

    def __iter__(self):
        self.note()
        try:
            for i in range(self.count):
                self.note()
                yield self[i]
        finally:
            self.note()

    def __getitem__(self, index):
        self.note()
        if self.connection is None:
            self.connection = sqlite3.connect(":memory:")
        (number,) = self.connection.execute("SELECT ?", [index]).fetchone()
        return np.full(1 + number % self.lengths, number)


class Sampler(Notes):
    """The indices of a dataset."""

    def __getitem__(self, index):
        self.note()
        return index


class NotedMap(Notes):
    """A dataset of them."""

    __iter__ = None


def sampled(**kwargs):
    data, sampler = NotedMap(), Sampler()
    data.lengths += "ragged" in kwargs
    loader = echobuf.EchoLoader(data, sampler=sampler, **KWARGS, **kwargs)
    return loader, [data.threads, sampler.threads]


def iterated(**kwargs):
    upstream = Notes()
    upstream.lengths += "ragged" in kwargs
    loader = echobuf.EchoLoader(upstream, **KWARGS, **kwargs)
    return loader, [upstream.threads]


def of_workers(**kwargs):
    sampler = Sampler()
    data = [np.arange(1 + i % (1 + ("ragged" in kwargs))) for i in range(24)]
    loader = echobuf.EchoLoader(
        data, sampler=sampler, num_workers=1, **KWARGS, **kwargs
    )
    return loader, [sampler.threads]


@pytest.mark.parametrize("make", [sampled, iterated, of_workers])
@pytest.mark.parametrize("kwargs", [{}, {"overlap_epochs": True}, RAGGED])
def test_all_calls_of_upstream_are_on_one_thread(make, kwargs):
    loader, threads = make(**kwargs)
    for _ in range(2):
        assert len([*loader]) == 6
        next(iter(loader))  # left early: its generator is closed
        iter(loader)
    loader.close()
    seen = {ident for each in threads for ident in each}
    assert len(seen) == 1
    assert threading.get_ident() not in seen
    no_feeder()


def test_what_cannot_be_begun_is_closed_on_the_thread():
    threads = []

    class Lists:
        def __iter__(self):
            try:
                threads.append(threading.get_ident())
                yield object.__new__(type("Odd", (), {"__array__": None}))
                yield 1
            finally:
                threads.append(threading.get_ident())

    loader = echobuf.EchoLoader(Lists(), **KWARGS)
    with pytest.raises(echobuf.EchobufError):
        iter(loader)
    del loader
    no_feeder()
    assert len(threads) == 2
    assert len({*threads, threading.get_ident()}) == 2


def test_what_upstream_sets_in_place_stays_on_its_thread():
    def look():
        decimal.getcontext().prec = 5
        return decimal.getcontext().prec

    with decimal.localcontext() as mine:
        assert values(echobuf.EchoLoader(Seen(look, 1), **KWARGS)) == {5}
        assert mine.prec == 28


def test_upstream_works_on_torchs_current_device_and_stream(monkeypatch):
    cuda = torch().cuda
    entered = []

    @contextmanager
    def enter(what):
        entered.append(what)
        yield

    for name, value in (
        ("is_initialized", True),
        ("current_device", 1),
        ("current_stream", "a stream"),
        ("default_stream", "the default stream"),
    ):
        monkeypatch.setattr(cuda, name, lambda value=value: value)
    monkeypatch.setattr(cuda, "device", enter)
    monkeypatch.setattr(cuda, "stream", enter)
    loader = echobuf.EchoLoader([np.zeros(3)] * 8, **KWARGS)
    assert len([*loader]) == 2
    assert entered == [1, "a stream"]
