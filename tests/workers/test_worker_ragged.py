"""Worker processes that make examples of different lengths."""

import itertools
import random
import re

import pytest

import echobuf
import ragged_worker_data
from ragged_worker_data import (
    KWARGS,
    Files,
    OnlyOne,
    Texts,
    Tokens,
    Troubled,
    length_of,
    load,
    texts,
)
from same_batches import count_same

N = 150


def sampler():
    order = list(range(N))
    random.Random(1).shuffle(order)
    return [*order, -1, *order[:9]]


@pytest.mark.parametrize(
    ("workers", "kwargs"),
    [
        (1, {"prefetch": 2, "ragged": "padded", "pad_value": 3}),
        (2, {"overlap_epochs": True, "pad_to": 8}),
        (3, {"factor": 1.5, "multiprocessing_context": "forkserver"}),
        (2, {"batch_size": None, "max_rows": 500}),
    ],
)
def test_batches_are_those_of_one_process(workers, kwargs):
    kwargs = {"sampler": sampler(), **kwargs}
    loader, alone = (load(Texts(N), each, **kwargs) for each in (workers, 0))
    for epoch in (0, 1, 7):
        loader.set_epoch(epoch)
        alone.set_epoch(epoch)
        assert count_same(loader, alone) > 10


def test_leaves_that_are_named_and_bytes():
    named = {"id": None, "tokens": "packed", "scores": "packed"}
    assert count_same(load(Texts(N), 1, ragged=named), load(Texts(N), 0, ragged=named))
    files = {"payload_bytes": 400, "batch_size": 8}
    assert count_same(load(Files(N), 1, **files), load(Files(N), 0, **files))


@pytest.mark.parametrize("overlong", ["error", "cut"])
def test_packed_rows(overlong):
    kwargs = {
        "pack_to": 600 if overlong == "error" else 40,
        "overlong": overlong,
        "payload_bytes": None,
    }
    assert count_same(load(Tokens(N), 2, **kwargs), load(Tokens(N), 0, **kwargs)) > 1


def test_functions_on_batches_need_not_be_pickled():
    chain = {"tokens": [echobuf.transforms.Lambda(lambda leaf: leaf)]}
    loader, alone = (load(Texts(N), each, transform=chain) for each in (1, 0))
    assert count_same(loader, alone) > 10


def test_a_state_goes_on_exactly():
    loader = load(Texts(N), 2)
    epoch = iter(loader)
    for _ in range(40):
        next(epoch)
    state = loader.state_dict()
    rest = list(epoch)
    other = load(Texts(N), 1)
    other.load_state_dict(state)
    assert count_same(other, rest) == len(rest) > 10
    assert count_same(other, loader) > 10


@pytest.mark.parametrize(
    ("trouble", "error", "said"),
    [
        (
            ragged_worker_data.too_large,
            echobuf.CapacityError,
            "example 60 of upstream is too large: `example` has 2,019 bytes in its "
            "ragged leaves; a segment's share of `payload_bytes` is 2,000",
        ),
        (
            ragged_worker_data.misshapen,
            echobuf.SpecError,
            r"example 60 of upstream does not fit.*scores.* has shape \[3, 4\]",
        ),
        (ragged_worker_data.failing, echobuf.UpstreamError, "no such text"),
        (ragged_worker_data.crashing, echobuf.UpstreamError, "SIGKILL"),
    ],
)
def test_an_example_that_fails_reaches_the_loop_and_the_next_epoch_works(
    trouble, error, said, tmp_path
):
    flag = tmp_path / "flag"
    flag.touch()
    loader = load(Troubled(N, trouble, 60, flag), 2, max_restarts=0)
    with pytest.raises(echobuf.UpstreamError) as caught:
        texts(loader)
    raised = [caught.value, caught.value.__cause__]
    assert any(isinstance(each, error) for each in raised)
    assert any(re.search(said, str(each)) for each in raised)
    del caught, raised
    flag.unlink()
    assert sum(map(len, texts(loader))) == 2 * N


def test_an_error_while_lengths_are_looked_at_is_upstreams():
    with pytest.raises(echobuf.UpstreamError, match="no such text"):
        iter(load(OnlyOne(N), 1))


def test_small_areas_hold_all_lengths():
    """A worker waits until the trainer has taken examples out of its area."""
    n = 3000  # of 64 KiB, several times as much
    loader = load(Texts(n), 1, window=64, batch_size=16, factor=1)
    ids = texts(loader)
    assert sorted(itertools.chain.from_iterable(ids)) == list(range(n))
    assert sum(map(length_of, range(n))) * 4 > 3 * 65536
    assert ids == texts(load(Texts(n), 0, window=64, batch_size=16, factor=1))


def test_stats_count_what_is_made():
    loader = load(Texts(40), 1, **{"factor": 1})
    assert sum(map(len, texts(loader))) == 40
    stats = loader.stats()
    assert stats.fresh == 40
    assert stats.t_upstream_s > 0
    assert KWARGS["factor"] == 2


def test_tensors_are_nested():
    torch = pytest.importorskip("torch")
    import echobuf.torch
    from ragged_torch_data import Tensors

    kwargs = {**KWARGS, "payload_bytes": 16_000, "ragged": "nested"}
    loader = echobuf.torch.EchoLoader(Tensors(60), num_workers=1, **kwargs)
    alone = echobuf.torch.EchoLoader(Tensors(60), **kwargs)
    for batch, other in zip(loader, alone, strict=True):
        assert batch["id"].equal(other["id"])
        assert batch["halves"].dtype is torch.bfloat16
        for name in ("tokens", "halves"):
            assert batch[name].layout is torch.jagged
            assert batch[name].values().equal(other[name].values())
            assert batch[name].offsets().equal(other[name].offsets())
