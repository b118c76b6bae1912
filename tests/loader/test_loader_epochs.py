"""Epochs of `EchoLoader`: their order, number, length and state."""

import numpy as np
import pytest

import echobuf
from echobuf.loader.loader import internals_of
from test_loader import KWARGS, Numbers

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]


def make(n=40, **kwargs):
    return echobuf.EchoLoader(Numbers(n), **{**KWARGS, **kwargs})


def ids(batches):
    return [batch["id"].tolist() for batch in batches]


# ---- epochs


def test_epochs_differ_in_order_and_are_the_same_again():
    loader, again = make(), make()
    epochs = [ids(loader) for _ in range(3)]
    assert epochs == [ids(again) for _ in range(3)]
    assert len({str(epoch) for epoch in epochs}) == 3
    assert ids(make(seed=1)) != epochs[0]


def test_set_epoch_fixes_the_order():
    loader = make()
    epochs = [ids(loader) for _ in range(3)]
    for number in (1, 0, 2, 0):
        loader.set_epoch(number)
        assert ids(loader) == epochs[number]
    loader.set_epoch(0)
    assert [ids(loader) for _ in range(3)] == epochs
    for bad in (-1, 1.5, None):
        with pytest.raises(echobuf.OptionError, match="`epoch`"):
            loader.set_epoch(bad)


def test_an_epoch_left_half_way_changes_nothing_about_the_next():
    loader, whole = make(prefetch=2), make()
    expected = [ids(whole) for _ in range(4)]
    for _ in zip(range(3), loader, strict=False):
        pass
    assert ids(loader) == expected[1]
    next(iter(loader))
    assert ids(loader) == expected[3]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("draws", [0, 1, 5])
def test_beginning_another_epoch_ends_the_one_before(draws, keep):
    loader, whole = make(), make()
    expected = [ids(whole) for _ in range(4)]
    epoch = iter(loader)
    for number in range(3):
        for _ in range(draws):
            next(epoch)
        before = epoch
        epoch = iter(loader)
        assert ids([next(epoch)]) == expected[number + 1][:1]
        with pytest.raises(echobuf.ClosedError, match="another epoch"):
            next(before)
        if not keep:
            del before  # now, in the middle of the next
    assert ids(epoch) == expected[3][1:]


def test_an_epoch_that_failed_may_be_dropped_in_the_middle_of_the_next():
    loader, whole = make(), make()
    expected = [ids(whole) for _ in range(2)]
    internals_of(loader).upstream.fail_at = 30
    failed = iter(loader)
    with pytest.raises(echobuf.UpstreamError):
        list(failed)
    internals_of(loader).upstream.fail_at = None
    epoch = iter(loader)
    got = ids([next(epoch)])
    del failed
    assert got + ids(epoch) == expected[1]


def test_memory_is_allocated_once():
    loader = make(n=200)
    sizes = []
    for _ in range(5):
        for _ in loader:
            pass
        sizes.append(loader.stats().bytes_host)
    assert len(set(sizes)) == 1


# ---- length


UNKNOWN = {
    "auto": lambda: make(factor="auto"),
    "generator": lambda: echobuf.EchoLoader((x for x in ()), **KWARGS),
    "no len": make,
    "batches": lambda: echobuf.EchoLoader([np.arange(3)], batched=True, **KWARGS),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_an_unknown_length_is_a_type_error(kind):
    with pytest.raises(TypeError):
        len(UNKNOWN[kind]())


@pytest.mark.parametrize("factor", [2, 2.5])
def test_a_length_that_is_given_is_believed(factor):
    loader = make(n=33, factor=factor, length=33)
    assert len(loader) == len(list(loader))


class _Stored:
    """Gives the same iterator at every `iter`, as some wrappers do."""

    def __init__(self):
        self._items = (np.int64(i) for i in range(8))

    def __iter__(self):
        return self._items


def test_a_stored_iterator_is_no_second_epoch():
    loader = echobuf.EchoLoader(_Stored(), batch_size=4, window=8, factor=1)
    assert len(list(loader)) == 2
    with pytest.raises(echobuf.UpstreamError, match="gives one epoch only"):
        iter(loader)


def test_an_epoch_without_items_has_an_end_too():
    class Now(Numbers):
        empty = False

        def __iter__(self):
            return iter(()) if self.empty else super().__iter__()

    upstream = Now(40)
    loader = echobuf.EchoLoader(upstream, **KWARGS)
    assert list(loader)
    upstream.empty = True
    with pytest.warns(UserWarning, match="upstream yields nothing in epoch 1"):
        assert list(loader) == []
    upstream.empty = False
    resumed = make()
    resumed.load_state_dict(loader.state_dict())
    assert ids(resumed) == ids(loader) == ids(_third(make()))


def _third(loader):
    loader.set_epoch(2)
    return loader


class Told(list):
    """Indices that are told the number of the epoch."""

    def __init__(self, indices):
        super().__init__(indices)
        self.epochs = []

    def set_epoch(self, epoch):
        self.epochs.append(epoch)


def test_a_sampler_is_told_the_epoch():
    data = [{"id": np.int64(number)} for number in range(8)]
    sampler = Told(range(8))
    loader = echobuf.EchoLoader(data, sampler=sampler, **KWARGS)
    for epoch in (3, 5):
        loader.set_epoch(epoch)
        list(loader)
    assert sampler.epochs == [3, 5]
