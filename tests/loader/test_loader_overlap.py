"""`overlap_epochs=True`: the next epoch begins while this one is served out."""

import gc
import threading
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf.loader.loader import internals_of
from leaked_threads import no_feeder
from test_loader import KWARGS, Numbers, numbers_of

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]


def make(upstream, **kwargs):
    arguments = {**KWARGS, "overlap_epochs": True, **kwargs}
    return echobuf.EchoLoader(upstream, **arguments)


def ids(batches):
    return [batch["id"].tolist() for batch in batches]


class Gated(Numbers):
    """Counts its epochs; from the second example of `gate_epoch` on it waits."""

    def __init__(self, n, gate_epoch=None, **kwargs):
        super().__init__(n, **kwargs)
        self.begun = 0
        self.gate_epoch = gate_epoch
        self.gate = threading.Event()

    def __iter__(self):
        number = self.begun
        self.begun += 1
        for index, item in enumerate(super().__iter__()):
            if number == self.gate_epoch and index == 1:
                assert self.gate.wait(20)
            yield item


class Several:
    """Another upstream each epoch; what is no iterable is raised."""

    def __init__(self, *epochs):
        self.epochs = list(epochs)

    def __iter__(self):
        epoch = self.epochs.pop(0)
        if isinstance(epoch, BaseException):
            raise epoch
        return iter(epoch)


@settings(max_examples=40)
@given(
    n=st.integers(1, 70),
    window=st.integers(4, 24),
    factor=st.sampled_from([1, 2, 3, 1.5, 2.5]),
    prefetch=st.integers(0, 2),
    drop_last=st.booleans(),
)
def test_batches_are_those_without_it(n, window, factor, prefetch, drop_last):
    kwargs = {"window": window, "factor": factor, "drop_last": drop_last}
    kwargs["batch_size"] = min(4, int(factor) * int(window / -(-factor // 1)))
    loader = make(Numbers(n), prefetch=prefetch, **kwargs)
    plain = make(Numbers(n), overlap_epochs=False, **kwargs)
    for _ in range(4):
        assert ids(loader) == ids(plain)
        assert loader.stats() is not None


@settings(max_examples=20)
@given(n=st.integers(1, 90), prefetch=st.integers(0, 2))
def test_every_example_is_served_with_auto(n, prefetch):
    loader = make(Numbers(n), factor="auto", max_factor=3, prefetch=prefetch)
    for _ in range(4):
        uses = Counter(numbers_of(loader))
        assert sorted(uses) == list(range(n))
        assert max(uses.values()) <= 3


def test_upstream_begins_anew_before_the_epoch_is_served_out():
    upstream = Gated(40)
    loader = make(upstream)
    for epoch in range(3):
        begun = []
        for batch in loader:
            begun.append(upstream.begun)
            assert len(batch["id"]) == 4
        assert begun[0] == epoch + 1
        assert begun[-1] == epoch + 2
        assert upstream.begun == epoch + 2, "once"


def test_an_epoch_is_served_out_while_the_next_ones_upstream_hangs():
    upstream = Gated(40, gate_epoch=1)
    loader = make(upstream)
    assert len(numbers_of(loader)) == 80
    assert upstream.begun == 2
    stats = loader.stats()
    assert (stats.fresh, stats.served) == (40, 80)
    upstream.gate.set()
    assert len(numbers_of(loader)) == 80


def test_a_failure_is_that_of_its_own_epoch():
    numbers = [{"id": number} for number in range(40)]
    bad = [{"id": 0}, {"id": "one"}]
    for second, error in (
        (ValueError("no iterator"), ValueError),
        (bad, echobuf.SpecError),
    ):
        loader = make(Several(numbers, second, numbers, numbers))
        assert len(numbers_of(loader)) == 80
        with pytest.raises(echobuf.UpstreamError) as caught:
            list(loader)
        # An item that does not fit is an error of the loader's own.
        assert isinstance(caught.value.__cause__ or caught.value, error)
        assert len(numbers_of(loader)) == 80


def test_an_epoch_may_be_empty():
    numbers = [{"id": number} for number in range(40)]
    loader = make(Several(numbers, [], numbers, [], [], numbers, numbers))
    with pytest.warns(UserWarning, match="yields nothing in epoch 1") as warned:
        assert [len(numbers_of(loader)) for _ in range(6)] == [80, 0, 80, 0, 0, 80]
    assert len(warned) == 1


def test_a_one_shot_upstream_gives_one_epoch():
    loader = make(iter(Numbers(40)))
    assert len(numbers_of(loader)) == 80
    with pytest.raises(echobuf.UpstreamError, match="one epoch"):
        iter(loader)


def test_set_epoch_still_fixes_the_order():
    upstream = Gated(40)
    loader, plain = make(upstream), make(Numbers(40), overlap_epochs=False)
    expected = [ids(plain) for _ in range(4)]
    for number in (0, 1, 1, 3, 0):
        loader.set_epoch(number)
        assert ids(loader) == expected[number]
    # Begun ahead and used: 1. Begun ahead and given up: 2, 2, 4, and the last 1.
    assert upstream.begun == 9


@pytest.mark.parametrize("keep", [False, True])
def test_an_epoch_may_be_left_while_it_is_served_out(keep):
    loader, plain = make(Gated(40)), make(Numbers(40), overlap_epochs=False)
    expected = [ids(plain) for _ in range(4)]
    held = []
    for number in range(4):
        epoch = iter(loader)
        got = [ids([next(epoch)])[0] for _ in range(19)]
        assert got == expected[number][:19]
        assert internals_of(loader).upstream.begun == number + 2
        if keep:
            held.append(epoch)


def test_resume_from_any_batch():
    def start(state):
        loader = make(Numbers(40))
        loader.load_state_dict(state)
        return loader

    loader = make(Numbers(40))
    plain = make(Numbers(40), overlap_epochs=False)
    expected = [ids(plain) for _ in range(4)]
    for number in range(2):
        rest = list(expected[number])
        for batch in loader:
            assert ids([batch]) == [rest.pop(0)]
            state = loader.state_dict()
            again = start(state)
            assert ids(again) == (rest or expected[number + 1])
            assert ids(again) == expected[number + (1 if rest else 2)]
    loader.load_state_dict(state)  # gives up what was begun ahead
    assert ids(loader) == expected[2]


def test_dropping_the_loader_ends_an_upstream_begun_ahead():
    upstream = Gated(10**6)
    upstream.n = 40
    loader = make(upstream)
    epoch = iter(loader)
    for _ in range(19):
        next(epoch)
    upstream.n = 10**6
    list(epoch)
    assert upstream.begun == 2
    del loader, epoch
    no_feeder()


def test_memory_is_the_same():
    loader, plain = make(Numbers(40)), make(Numbers(40), overlap_epochs=False)
    for _ in range(3):
        list(loader), list(plain)
        assert loader.stats().bytes_host == plain.stats().bytes_host


def test_ctrl_c_while_the_next_epoch_begins_loses_nothing():
    class Interrupted(Gated):
        def __iter__(self):
            if self.begun == 1:
                self.begun += 1
                raise KeyboardInterrupt
            return super().__iter__()

    loader = make(Interrupted(40))
    plain = make(Numbers(40), overlap_epochs=False)
    epoch, got = iter(loader), []
    with pytest.raises(KeyboardInterrupt):
        got.extend(epoch)
    got.extend(epoch)
    assert ids(got) == ids(plain)
    assert ids(loader) == ids(plain)


def test_the_argument_is_checked():
    for bad in (1, None, "yes"):
        with pytest.raises(echobuf.OptionError, match="`overlap_epochs`"):
            make(Numbers(4), overlap_epochs=bad)


def test_an_interrupted_iter_stops_what_was_begun_ahead(monkeypatch):
    upstream = Gated(40)
    loader, plain = make(upstream), make(Numbers(40), overlap_epochs=False)
    expected = [ids(plain) for _ in range(2)]
    assert ids(loader) == expected[0]

    def interrupted(*_):
        raise KeyboardInterrupt

    engine = internals_of(loader).starter.buffer
    with monkeypatch.context() as patch:
        patch.setattr(engine, "go_ahead", interrupted)
        upstream.n = 10**6  # of epochs begun from now on
        with pytest.raises(KeyboardInterrupt):
            iter(loader)
    upstream.n = 40
    assert ids(loader) == expected[1]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterator_goes_on_without_its_loader(workers):
    numbers = [{"id": number} for number in range(40)]
    if workers:
        loader = make(numbers, num_workers=workers)
    else:
        loader = make(Gated(40, gate_epoch=1))
    epoch, served = iter(loader), []
    while internals_of(loader).starter.early is None:
        served += ids([next(epoch)])
    upstream = internals_of(loader).upstream
    del loader
    gc.collect()
    served += ids(epoch)
    assert Counter(each for batch in served for each in batch) == Counter(
        list(range(40)) * 2
    )
    if not workers:
        upstream.gate.set()
    del epoch, upstream
