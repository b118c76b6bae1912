"""An epoch that was begun and not drawn from, and telling upstream the epoch."""

import threading

import numpy as np
import pytest

import echobuf
from echobuf.loader.loader import internals_of
from helpers import WAIT_S
from leaked_threads import no_feeder
from test_loader import KWARGS, Numbers, numbers_of
from test_loader_epochs import ids, make

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]


class Told(Numbers):
    """Yields other examples in each epoch; counts how often it was begun."""

    def __init__(self, n, epoch=0):
        super().__init__(n)
        self.epoch = epoch
        self.begun = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        self.begun += 1
        for item in super().__iter__():
            yield {**item, "id": 1000 * self.epoch + item["id"]}


def told(**kwargs):
    return echobuf.EchoLoader(Told(40), **{**KWARGS, **kwargs})


def uninterrupted(epochs=4):
    loader, served = told(), []
    for number in range(epochs):
        loader.set_epoch(number)
        served.append(ids(loader))
        assert {each // 1000 for batch in served[-1] for each in batch} == {number}
    return served


# ---- begun and dropped


class Alone:
    """Numbers; notes how many threads are in a call of it at once. One call is long."""

    def __init__(self):
        self.inside = self.most = 0
        self.is_called, self.go_on = threading.Event(), threading.Event()

    def __iter__(self):
        return map(self.make, range(40))

    def make(self, number):
        self.inside += 1
        self.most = max(self.most, self.inside)
        if number == 5 and not self.is_called.is_set():
            self.is_called.set()
            assert self.go_on.wait(WAIT_S)
        self.inside -= 1
        return {"id": np.int64(number)}


def test_upstream_s_current_call_returns_before_the_next_epoch_calls_it():
    upstream = Alone()
    loader = echobuf.EchoLoader(upstream, **{**KWARGS, "window": 4})
    epoch = iter(loader)
    next(epoch)
    assert upstream.is_called.wait(WAIT_S)
    # The next epoch waits for that call, or is in one of its own after a while.
    threading.Timer(0.2, upstream.go_on.set).start()
    del epoch
    assert len(numbers_of(loader)) == 80
    assert upstream.most == 1


def test_an_iterator_that_was_dropped_at_once_was_no_epoch():
    loader, whole = make(), make()
    expected = [ids(whole) for _ in range(2)]
    for number in range(2):
        for _ in range(3):
            iter(loader)
        assert ids(loader) == expected[number]


def test_what_was_begun_is_used():
    loader = told()
    for _ in range(3):
        iter(loader)
    list(loader)
    assert internals_of(loader).upstream.begun == 1


def test_a_one_shot_upstream_may_be_tried():
    loader = echobuf.EchoLoader(iter(Numbers(40)), **KWARGS)
    iter(loader)
    assert len(numbers_of(loader)) == 80
    with pytest.raises(echobuf.UpstreamError, match="one epoch"):
        iter(loader)


def test_an_empty_upstream_may_be_tried():
    loader = echobuf.EchoLoader([], **KWARGS)
    for _ in range(2):
        iter(loader)
        assert list(loader) == []


def test_a_resumed_epoch_may_be_tried():
    # Upstream's end, which a state names once it is known, is far from what is drawn.
    loader, expected = make(400), ids(make(400))
    got = [ids([batch])[0] for _, batch in zip(range(7), loader, strict=False)]
    again = make(400)
    again.load_state_dict(loader.state_dict())
    iter(again)
    assert again.state_dict() == loader.state_dict()
    again.set_epoch(0)
    assert again.state_dict() == loader.state_dict()
    assert got + ids(again) == expected


def test_a_loader_that_goes_takes_what_it_began_with_it():
    loader = make(n=10**6)
    iter(loader)
    assert any("echobuf" in thread.name for thread in threading.enumerate())
    del loader
    no_feeder()


def test_an_iterator_outlives_its_loader():
    expected = ids(make())
    epoch = iter(make())
    assert ids(epoch) == expected


# ---- set_epoch


def test_upstream_is_told():
    assert len({str(epoch) for epoch in uninterrupted()}) == 4


def test_nobody_is_told_what_nobody_said():
    loader = told()
    internals_of(loader).upstream.set_epoch(7)
    for _ in range(2):
        assert {each // 1000 for each in numbers_of(loader)} == {7}


def test_set_epoch_holds_for_an_iterator_that_has_given_nothing():
    loader, expected = told(), uninterrupted()
    epoch = iter(loader)
    loader.set_epoch(2)
    assert loader.state_dict()["epoch"] == 2
    assert ids(epoch) == expected[2]
    loader.set_epoch(1)
    epoch = iter(loader)
    loader.set_epoch(1)
    again = iter(loader)
    with pytest.raises(echobuf.ClosedError):
        next(epoch)
    assert ids(again) == expected[1]
    begun = internals_of(loader).upstream.begun
    assert begun == 3  # 0, given up; 2; 1


def test_set_epoch_in_the_middle_is_for_the_next():
    loader, whole = make(), make()
    expected = [ids(whole) for _ in range(3)]
    epoch = iter(loader)
    got = ids([next(epoch)])
    loader.set_epoch(2)
    assert got + ids(epoch) == expected[0]
    assert ids(loader) == expected[2]


@pytest.mark.parametrize("cut", [0, 1, 7, 20])
@pytest.mark.parametrize("order", ["state first", "iterator first", "epoch first"])
def test_a_state_and_an_upstream_that_is_told(order, cut):
    """However a trainer puts them in order."""
    loader, expected = told(), uninterrupted()
    loader.set_epoch(1)
    got = [ids([batch])[0] for _, batch in zip(range(cut), loader, strict=False)]
    state = loader.state_dict()
    number = state["epoch"]
    again = told()
    if order == "epoch first":
        again.set_epoch(number)
        again.load_state_dict(state)
        epoch = iter(again)
    elif order == "state first":
        again.load_state_dict(state)
        again.set_epoch(number)
        epoch = iter(again)
    else:
        iter(again)
        again.load_state_dict(state)
        epoch = iter(again)
        again.set_epoch(number)
    whole = expected[1] if number == 1 else got + expected[2]
    assert got + ids(epoch) == whole


def test_overlapping_epochs_are_told_ahead():
    loader, expected = told(overlap_epochs=True), uninterrupted()
    for number in range(4):
        loader.set_epoch(number)
        assert ids(loader) == expected[number]
    assert internals_of(loader).upstream.begun == 5
    loader.set_epoch(1)
    assert ids(loader) == expected[1]


def test_a_failure_after_set_epoch_can_be_tried_again():
    loader, expected = told(), uninterrupted()
    epoch = iter(loader)
    internals_of(loader).upstream.fail_at = 0
    loader.set_epoch(1)
    for _ in range(2):
        with pytest.raises(echobuf.UpstreamError):
            next(epoch)
    internals_of(loader).upstream.fail_at = None
    assert ids(loader) == expected[1]


def test_what_is_told_of_a_data_loader():
    torch_data = pytest.importorskip("torch.utils.data")

    class Dataset(torch_data.Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, number):
            return {"id": number}

        def set_epoch(self, epoch):
            self.told = epoch

    sampler = torch_data.DistributedSampler(range(24), 1, 0)
    upstream = torch_data.DataLoader(Dataset(), batch_size=4, sampler=sampler)
    loader = echobuf.EchoLoader(upstream, batched=True, window=12, factor=1)
    epoch = iter(loader)
    loader.set_epoch(5)
    assert sampler.epoch == upstream.dataset.told == 5
    assert sorted(numbers_of(epoch)) == list(range(24))


def test_two_iterators_at_once_are_an_error_that_names_the_cure():
    loader = make()
    with pytest.raises(echobuf.ClosedError, match="Make a loader of its own for each"):
        for _ in zip(loader, loader, strict=True):
            pass


def test_an_upstream_error_of_upstream_says_what_it_says():
    class Gone:
        def __iter__(self):
            raise echobuf.UpstreamError("the data is gone")

    with pytest.raises(echobuf.UpstreamError) as caught:
        next(iter(echobuf.EchoLoader(Gone(), batch_size=4, window=16, factor=2)))
    assert str(caught.value) == "the data is gone"
