"""Items that are renewed: made anew exactly when their generation changes."""

import copy
import os
import pickle
import random
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import echobuf
from cache_data import in_child
from echobuf.cache import CachedDataset, get_renewal
from renewed_data import Renewed, check, make, read_epoch, reference


@given(
    st.integers(1, 9),
    st.integers(1, 7),
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_an_item_is_made_exactly_when_its_generation_changes(
    place, count, renew, jumps, batched
):
    """Epochs go on by one, and jump now and then, back too."""
    cached = make(place(), renew, source=(source := Renewed(count)))
    table = reference(count, renew, 40)
    kept: dict[int, int] = {}
    for begin in jumps:
        for epoch in range(begin, begin + 4):
            cached.set_epoch(epoch)
            source.made.clear()
            expected = []
            for index, generation in enumerate(table[epoch]):
                if kept.get(index) != generation:
                    expected.append((index, generation))
                    if table[epoch + 1][index] == generation:
                        kept[index] = generation
            got = (
                cached.__getitems__(range(count))
                if batched
                else [cached[index] for index in range(count)]
            )
            assert source.made == expected
            for index, generation in enumerate(table[epoch]):
                check(got[index], index, generation)


def test_the_first_epoch_makes_all_items_and_each_other_one_a_share(place):
    source = Renewed(60)
    cached = make(place(), 5, source=source)
    counts = []
    for epoch in range(11):
        source.made.clear()
        read_epoch(cached, epoch, 5)
        counts.append(len(source.made))
    assert counts == [60] + [12] * 10
    stats = cached.stats()
    assert (stats.misses, stats.hits) == (sum(counts), 11 * 60 - sum(counts))


def test_an_epoch_read_twice_makes_only_what_is_served_no_more(place):
    cached = make(place(), source=(source := Renewed(9)))
    cached.set_epoch(4)
    for _ in range(2):
        source.made.clear()
        [cached[index] for index in range(9)]
    # (4 + i % 3) % 3 is 2, the last one, for the indices with i % 3 == 1
    assert [index for index, _ in source.made] == [1, 4, 7]


@pytest.mark.parametrize("same_directory", [True, False])
@pytest.mark.parametrize("stop", [0, 1, 2, 3, 7])
def test_a_resumed_run_is_one_that_was_never_interrupted(
    tmp_path, stop, same_directory
):
    """The number of the epoch is all it needs; with its directory it makes less."""
    whole = make(tmp_path / "whole")
    for epoch in range(stop):
        read_epoch(whole, epoch)
    first = make(tmp_path / "first")
    for epoch in range(stop):
        read_epoch(first, epoch)
    del first
    source = Renewed()
    resumed = make(tmp_path / ("first" if same_directory else "new"), source=source)
    for epoch in range(stop, stop + 5):
        before = whole.stats().misses
        read_epoch(whole, epoch)
        source.made.clear()
        read_epoch(resumed, epoch)
        if same_directory:
            assert len(source.made) == whole.stats().misses - before


def test_only_a_new_generation_takes_the_place_of_an_item(tmp_path):
    """A run that begins anew in a directory that is ahead keeps its items again."""
    read_epoch(make(tmp_path), 9)
    cached = make(tmp_path)
    for epoch in range(4):
        read_epoch(cached, epoch)
    assert cached.stats().hits == 3 * (12 - 4)


def test_renew_1_makes_each_item_in_each_epoch_and_stores_none(place):
    cached = make(place(), 1, source=(source := Renewed()))
    for epoch in range(3):
        read_epoch(cached, epoch, 1)
    assert len(source.made) == 36
    assert (cached.stats().items, cached.stats().bytes) == (0, 0)


def test_the_epoch_is_0_until_it_is_set(place):
    cached = make(place())
    check(cached[11], 11, 0)
    cached.set_epoch(np.int64(1))
    check(cached[11], 11, 1)


def test_the_dataset_and_prepare_see_the_item_and_transform_does_not(place):
    seen = []

    def prepare(item):
        seen.append(get_renewal())
        return item

    def transform(item):
        assert get_renewal() is None
        return item

    cached = make(place(), prepare=prepare, transform=transform, seed=5)
    cached.set_epoch(6)
    cached[4], cached[-8]
    [renewal] = seen
    assert (renewal.index, renewal.generation) == (4, 2)
    assert 0 <= renewal.seed < 2**63
    assert get_renewal() is None


def test_seeds_differ_by_seed_index_and_generation():
    seeds = set()
    for seed in range(5):
        schedule = echobuf.cache.renewal.Schedule(2, seed)
        for epoch in range(10):
            schedule.set_epoch(2 * epoch)
            for key in schedule.keys(range(10)):
                seeds.add(schedule.make(key, lambda _: get_renewal().seed))
    assert len(seeds) == 500


class Globals:
    """Items of the global generators."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        torch = pytest.importorskip("torch")
        numbers = [random.random(), float(np.random.rand()), float(torch.rand(()))]
        if index == 3:
            raise ValueError("a fault")
        return numbers


def test_global_generators_have_the_seed_of_the_item_and_are_put_back(place):
    torch = pytest.importorskip("torch")

    def draw():
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    one, two = (make(place(), source=Globals()) for _ in range(2))
    state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    expected = [draw() for _ in range(4)]
    random.setstate(state[0]), np.random.set_state(state[1])
    torch.set_rng_state(state[2])
    items, got = [], []
    for index in (2, 0, 1):
        got.append(draw())
        items.append(one[index])
    with pytest.raises(ValueError, match="a fault"):
        one[3]
    got.append(draw())
    assert got == expected
    assert [two[index] for index in (2, 0, 1)] == items
    assert len({number for item in items for number in item}) == 9


def test_other_threads_leave_global_generators_alone(place):
    """The main thread may draw from them meanwhile."""
    cached = make(place(), source=Globals())
    random.seed(3)
    expected = random.random()
    random.seed(3)
    got = []
    thread = threading.Thread(target=lambda: got.append(cached[0]))
    thread.start()
    thread.join()
    assert got[0][0] == expected


@pytest.mark.parametrize("renew", [0, -1, True, 2.5, "3", 2**40, float("nan")])
def test_a_wrong_renew_is_refused(tmp_path, renew):
    with pytest.raises(echobuf.OptionError, match=r"`renew` is .*; it must be an int"):
        make(tmp_path, renew)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("epoch", [-1, True, 1.0, None, "1", 2**28])
def test_a_wrong_epoch_is_refused(tmp_path, epoch):
    cached = make(tmp_path)
    cached.set_epoch(4)
    with pytest.raises(echobuf.OptionError, match=r"`epoch` is .*; it must be an int"):
        cached.set_epoch(epoch)
    check(cached[0], 0, 1)


def test_the_last_epoch_and_the_largest_renew_are_taken(place):
    for renew in (1, 2**28 - 1):
        cached = make(place(), renew)
        cached.set_epoch(2**28 - 1)
        check(cached[1], 1, 2**28 - 1 if renew == 1 else 1)


@pytest.mark.parametrize("seed", [-1, True, 0.5, None, 2**63])
def test_a_wrong_seed_is_refused(tmp_path, seed):
    with pytest.raises(echobuf.OptionError, match=r"`seed` is .*; it must be an int"):
        make(tmp_path, seed=seed)


def test_a_seed_without_renew_is_refused():
    with pytest.raises(echobuf.OptionError, match="`seed` is 3, without `renew`"):
        CachedDataset([1, 2], 1000, seed=3)


def test_set_epoch_without_renew_changes_nothing():
    cached = CachedDataset([1, 2], 1000)
    cached[0]
    cached.set_epoch(7)
    cached[0]
    assert cached.stats().hits == 1
    with pytest.raises(echobuf.OptionError, match="`epoch` is -1"):
        cached.set_epoch(-1)


def test_an_item_that_cannot_be_kept_is_refused(place):
    cached = make(place(), prepare=lambda _: object())
    with pytest.raises(echobuf.SpecError, match=r"`item` is of type builtins\.object"):
        cached[0]
    cached.set_epoch(0)
    assert cached.stats().items == 0


def test_an_item_that_could_not_be_made_is_made_at_the_next_access(place):
    source = Renewed()
    failing = [True]

    def prepare(item):
        if failing.pop() if failing else False:
            raise RuntimeError("once")
        return item

    cached = make(place(), source=source, prepare=prepare)
    with pytest.raises(RuntimeError, match="once"):
        cached[0]
    assert get_renewal() is None
    check(cached[0], 0, 0)
    assert source.made == [(0, 0), (0, 0)]


def given(directory, source, **kwargs):
    return CachedDataset(source, 10**6, directory=directory, renew=3, **kwargs)


def test_an_identity_is_made_from_items_that_follow_from_their_seed(tmp_path):
    in_child(lambda: given(tmp_path, Renewed())[0])
    check(given(tmp_path, Renewed())[0], 0, 0)
    with pytest.raises(echobuf.OptionError, match="is a cache of other data"):
        given(tmp_path, Renewed(), prepare=lambda item: {**item, "more": 1})


def test_an_identity_is_made_from_items_of_the_global_generators(tmp_path):
    items = [0.0] * 5

    def prepare(item):
        return item + random.random()

    first = given(tmp_path, items, prepare=prepare)[0]
    assert given(tmp_path, items, prepare=prepare)[0] == first


def test_items_that_do_not_follow_from_their_seed_need_an_identity(tmp_path):
    chance = np.random.default_rng()
    source = Renewed()

    def prepare(item):
        return {**item, "noise": chance.random()}

    with pytest.raises(echobuf.OptionError, match="made twice with one seed"):
        given(tmp_path, source, prepare=prepare)
    assert os.listdir(tmp_path) == []
    given(tmp_path, source, prepare=prepare, identity="noise")[0]


def test_a_copy_has_the_epoch(place):
    cached = make(place())
    cached.set_epoch(5)
    for other in (copy.deepcopy(cached), pickle.loads(pickle.dumps(cached))):
        check(other[1], 1, 2)
        cached.set_epoch(8)
        check(other[1], 1, 2)
        other.set_epoch(11)
        check(cached[1], 1, 3)
        cached.set_epoch(5)
