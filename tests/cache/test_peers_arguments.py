"""Arguments of a cache of several ranks, and no process group."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import echobuf
from cache_data import COUNT, Numbered
from echobuf.cache.distributed import LocalitySampler, PartitionedDataset
from sharing_ranks import Sharing, read

pytestmark = pytest.mark.usefixtures("ranks_here")


def _label(got):
    return got["y"] * 10


def errors(ranks, arguments):
    sharing = Sharing(ranks, arguments)
    assert all(isinstance(made, Exception) for made in sharing.made), sharing.made
    return sharing.made


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_bytes", (1000, 2000)),
        ("on_lost", ("raise", "storage")),
        ("timeout_s", (3.0, 4.0)),
        ("prepare", (_label, None)),
        ("identity", ("one", "two")),
    ],
)
def test_different_arguments_are_named_on_all_ranks(name, values):
    for error in errors(3, lambda rank: {name: values[rank == 1]}):
        assert isinstance(error, echobuf.OptionError)
        assert f"`{name}` differs between ranks" in str(error)
        for value in values:
            shown = "_label" if callable(value) else str(value)
            assert shown in str(error)


def test_different_lengths_are_named():
    counts = iter([40, 41])
    sharing = Sharing(2, source=lambda: Numbered(next(counts)))
    for error in sharing.made:
        assert isinstance(error, echobuf.OptionError)
        assert "'40 items'" in str(error)
        assert "'41 items'" in str(error)


def test_an_error_of_one_rank_is_an_error_of_all():
    results = errors(3, lambda rank: {"max_bytes": 10**6 if rank != 1 else 2**59})
    assert isinstance(results[1], echobuf.CapacityError)
    for other in (results[0], results[2]):
        assert isinstance(other, echobuf.UpstreamError)
        assert "rank 1 could not make its cache: `max_bytes`" in str(other)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"on_lost": "ignore"}, "`on_lost` is 'ignore'"),
        ({"timeout_s": 0}, "`timeout_s` is 0"),
        ({"timeout_s": None}, "`timeout_s` is None"),
        ({"timeout_s": "1"}, "`timeout_s` is '1'"),
        ({"max_bytes": 0}, "`max_bytes` is 0"),
        ({"host": 5}, "`host` is 5"),
        ({"host": "203.0.113.7"}, "`host` is '203.0.113.7', where this rank cannot"),
        ({"prepare": 3}, "`prepare` is 3"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, named):
    for error in errors(2, lambda rank: arguments):
        assert isinstance(error, echobuf.OptionError)
        assert named in str(error)


def test_iterable_data_are_refused():
    sharing = Sharing(2, source=lambda: iter([]))
    for error in sharing.made:
        assert isinstance(error, echobuf.OptionError)
        assert "without __len__ and __getitem__" in str(error)


def test_a_missing_process_group_is_an_error(monkeypatch):
    monkeypatch.undo()
    with pytest.raises(echobuf.OptionError, match="there is no process group: call"):
        PartitionedDataset([1], 1000)


def test_no_collective_is_called(monkeypatch):
    """Use a backend that can do nothing: so any backend will do."""
    monkeypatch.undo()
    import torch.distributed as dist
    import torch.testing._internal.distributed.fake_pg  # noqa: F401 - "fake"

    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=1)
    try:
        cache = PartitionedDataset(Numbered(), 10**6)
        for epoch in range(2):
            sampler = LocalitySampler(cache, batch_size=7, seed=epoch)
            numbers = list(sampler)
            assert sorted(numbers) == list(range(COUNT))
            read(cache, numbers)
        assert (cache.stats().misses, cache.stats().hits) == (COUNT, COUNT)
    finally:
        dist.destroy_process_group()
