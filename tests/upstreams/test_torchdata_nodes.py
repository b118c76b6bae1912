"""torchdata nodes: a `Loader` of them, which gives the same iterator in each epoch."""

import numpy as np
import pytest
import torch

import echobuf
from upstream_checks import N, check_all, check_unknown_length, run

tn = pytest.importorskip("torchdata.nodes")

DATASET = [{"x": np.full(3, number, np.float32), "id": number} for number in range(N)]
KWARGS = {"batch_size": 32, "window": 64, "factor": 2}


def page(sampler):
    return run("torchdata nodes", {"sampler": sampler, "dataset": DATASET})


def test_the_page():
    sampler = torch.utils.data.SequentialSampler(DATASET)
    check_all(lambda: page(sampler)["loader"], "id")


def test_a_sampler_with_epochs_is_resumed():
    def make(epoch=0):
        sampler = torch.utils.data.DistributedSampler(DATASET, 1, 0, seed=1)
        node = tn.SamplerWrapper(sampler, initial_epoch=epoch)
        node = tn.ParallelMapper(node, DATASET.__getitem__, 2, method="thread")
        return echobuf.EchoLoader(tn.Loader(node), **KWARGS)

    loader = make()
    list(loader)
    epoch = iter(loader)
    next(epoch)
    state = loader.state_dict()
    again = make(state["epoch"])
    again.load_state_dict(state)
    expected = [batch["id"].tolist() for batch in epoch]
    assert [batch["id"].tolist() for batch in again] == expected


def test_overlapping_epochs():
    sampler = torch.utils.data.SequentialSampler(DATASET)
    upstream = tn.Loader(tn.MapStyleWrapper(DATASET, sampler))
    loader = echobuf.EchoLoader(upstream, overlap_epochs=True, **KWARGS)
    for _ in range(3):
        served = [i for batch in loader for i in batch["id"].tolist()]
        assert sorted(served) == sorted(2 * list(range(N)))


def test_a_bare_node_gives_one_epoch():
    loader = echobuf.EchoLoader(tn.IterableWrapper(range(20)), **KWARGS)
    assert len(list(loader)) == 2
    with pytest.raises(echobuf.UpstreamError, match=r"`torchdata\.nodes\.Loader"):
        iter(loader)


def test_no_length_and_no_batches():
    node = tn.IterableWrapper(DATASET)
    check_unknown_length(tn.Loader(node))
    batches = tn.Loader(tn.Batcher(node, 4))
    check_unknown_length(batches, batched=True)
    loader = echobuf.EchoLoader(batches, batched=True, **KWARGS)
    with pytest.raises(echobuf.SpecError, match=r"A list of examples is no batch"):
        list(loader)
